// Small layers between the embedding and the head, whose rows lie on all shards. Matrices are
// row-major, [rows, cols].

import { create } from "@bufbuild/protobuf";
import { bytesOf, floats, fromMatrix, matrix, u32s } from "./arrays.js";
import { InternalError } from "./errors.js";
import { type RowBlock, RowBlockSchema } from "./gen/dslide/v1/common_pb.js";
import { type TableSpec } from "./gen/dslide/v1/model_pb.js";
import { rectify } from "./network.js";

/** weights f32 [out, in], biases f32 [out]; of a layer, or the gradients of all its rows. */
export interface DenseRows {
  weights: Float32Array;
  biases: Float32Array;
}

/** A layer as the shards have answered its rows. */
export interface DenseLayer extends DenseRows {
  /** By shard: the rows that it holds, in its order. */
  rowsOf: readonly Uint32Array[];
}

/** Puts the shards' parts of a layer together; what `denseGather` answers. */
export function joinDense(table: TableSpec, parts: readonly (RowBlock | undefined)[]): DenseLayer {
  const [rows, dim] = [Number(table.rows), Number(table.dim)];
  const rowsOf = parts.map((part) => (part ? u32s(part.rowIds) : new Uint32Array()));
  const layer = { weights: new Float32Array(rows * dim), biases: new Float32Array(rows), rowsOf };
  const seen = new Uint8Array(rows);
  parts.forEach((part, shard) => {
    const ids = rowsOf[shard]!;
    if (!part?.values || ids.length === 0) return;
    const weights = fromMatrix(part.values);
    const biases = floats(part.biases);
    ids.forEach((id, i) => {
      if (id >= rows) throw new InternalError(`table "${table.name}" has no row ${id}`);
      seen[id]! += 1;
      layer.weights.set(weights.subarray(i * dim, (i + 1) * dim), id * dim);
      layer.biases[id] = biases[i]!;
    });
  });
  if (seen.some((count) => count !== 1)) {
    throw new InternalError(
      `table "${table.name}": the shards did not send each of its ${rows} rows once`,
    );
  }
  return layer;
}

/** max(W x + b, 0) of x f32 [batch, in]; f32 [batch, out]. */
export function denseForward(layer: DenseRows, x: Float32Array): Float32Array {
  const out = layer.biases.length;
  const width = layer.weights.length / out;
  const y = new Float32Array((x.length / width) * out);
  for (let sample = 0; sample * width < x.length; ++sample) {
    for (let unit = 0; unit < out; ++unit) {
      let sum = layer.biases[unit]!;
      for (let i = 0; i < width; ++i) sum += layer.weights[unit * width + i]! * x[sample * width + i]!;
      y[sample * out + unit] = sum;
    }
  }
  return rectify(y);
}

/**
 * The gradients of a layer's rows, summed over the samples, and those of its inputs, f32 [batch, in],
 * for inputs x f32 [batch, in] and the gradients of W x + b, f32 [batch, out].
 */
export function denseBackward(
  layer: DenseRows,
  x: Float32Array,
  gradient: Float32Array,
): { rows: DenseRows; inputs: Float32Array } {
  const out = layer.biases.length;
  const width = layer.weights.length / out;
  const rows = { weights: new Float32Array(layer.weights.length), biases: new Float32Array(out) };
  const inputs = new Float32Array(x.length);
  for (let sample = 0; sample * width < x.length; ++sample) {
    const first = sample * width;
    for (let unit = 0; unit < out; ++unit) {
      const g = gradient[sample * out + unit]!;
      if (g === 0) continue;
      const row = unit * width;
      for (let i = 0; i < width; ++i) {
        rows.weights[row + i]! += g * x[first + i]!;
        inputs[first + i]! += g * layer.weights[row + i]!;
      }
      rows.biases[unit]! += g;
    }
  }
  return { rows, inputs };
}

/** Each shard's part of the gradients, as `denseScatter` sends it; undefined: the shard has no rows. */
export function denseParts(layer: DenseLayer, gradients: DenseRows): (RowBlock | undefined)[] {
  const width = layer.weights.length / layer.biases.length;
  return layer.rowsOf.map((ids) => {
    if (ids.length === 0) return undefined;
    const weights = new Float32Array(ids.length * width);
    ids.forEach((id, i) => {
      weights.set(gradients.weights.subarray(id * width, (id + 1) * width), i * width);
    });
    const biases = Float32Array.from(ids, (id) => gradients.biases[id]!);
    return create(RowBlockSchema, {
      rowIds: bytesOf(ids), values: matrix(ids.length, width, weights), biases: bytesOf(biases),
    });
  });
}

// The arithmetic that a client does itself: what lies between the wide input and the wide output.
// docs/understand/wire.md, "Prediction" and "Training". Matrices are row-major, [rows, cols].

import { floats, fromBf16, fromMatrix, toBf16 } from "./arrays.js";
import { InternalError, InvalidArgumentError } from "./errors.js";
import { type Matrix } from "./gen/dslide/v1/common_pb.js";
import { type ModelSpec, type TableSpec } from "./gen/dslide/v1/model_pb.js";
import { type HeadForwardResult } from "./gen/dslide/v1/shard_pb.js";
import { type Batch } from "./samples.js";

/** The tables of a model in the order of the forward pass. */
export interface Network {
  embedding: TableSpec;
  dense: TableSpec[];
  head: TableSpec;
  /** Of the data: the embedding's rows but for the bias row. */
  numFeatures: number;
  numLabels: number;
  /** Whether what the head is given is rounded to bf16. */
  bf16: boolean;
}

/** Refuses models that are no chain of one embedding, dense layers and one head. */
export function networkOf(spec: ModelSpec): Network {
  const embedding = spec.tables[0];
  const head = spec.tables.at(-1);
  const dense = spec.tables.slice(1, -1);
  if (
    spec.tables.length < 2 ||
    embedding?.role !== "embedding" ||
    head?.role !== "head" ||
    dense.some((table) => table.role !== "dense")
  ) {
    throw new InvalidArgumentError(
      `model "${spec.name}" is no network: its ${spec.tables.length} tables must be one ` +
        "embedding, any number of dense layers and one head",
    );
  }
  return {
    embedding,
    dense,
    head,
    numFeatures: Number(embedding.rows) - (embedding.biasRow ? 1 : 0),
    numLabels: Number(head.rows),
    bf16: spec.activations === "bf16",
  };
}

/** The sum of the shards' parts in f32, in shard order, [rows, cols]. */
export function addParts(parts: readonly Matrix[], rows: number, cols: number): Float32Array {
  const total = new Float32Array(rows * cols);
  parts.forEach((part, shard) => {
    if (part.rows !== rows || part.cols !== cols) {
      throw new InternalError(
        `shard ${shard} answered [${part.rows}, ${part.cols}], expected [${rows}, ${cols}]`,
      );
    }
    const numbers = fromMatrix(part);
    for (let i = 0; i < total.length; ++i) total[i]! += numbers[i]!;
  });
  return total;
}

/** max(x, 0), in place. */
export function rectify(x: Float32Array): Float32Array {
  for (let i = 0; i < x.length; ++i) if (!(x[i]! > 0)) x[i] = 0;
  return x;
}

/** Rounded to bf16 and back. */
export function roundToBf16(x: Float32Array): Float32Array {
  return fromBf16(toBf16(x));
}

/**
 * The gradient of a layer's sum: that of its output where the unit was active, else 0. scale: that of
 * the units that dropout has left.
 */
export function maskGradient(
  activated: Float32Array,
  gradient: Float32Array,
  scale = 1,
): Float32Array {
  return gradient.map((value, i) => (activated[i]! > 0 ? value * scale : 0));
}

/** A batch's loss over the rows of all shards. */
export interface Loss {
  /** Over the samples. */
  sum: number;
  /** f32 [batch]: the log of each softmax sum; empty with the sigmoid. */
  logPartitions: Float32Array;
}

type HeadPart = Pick<HeadForwardResult, "maxLogits" | "expSums" | "labelLogits">;

/**
 * Combines the shards' parts of the loss, in f64.
 *
 * labels: each shard's labels of every sample. targets: f32 [batch], of each label of a sample.
 */
export function combineLoss(
  kind: "softmax" | "sigmoid",
  parts: readonly HeadPart[],
  labels: readonly Pick<Batch, "offsets">[],
  targets: Float32Array,
): Loss {
  const batch = targets.length;
  const highest = parts.map((part) => floats(part.maxLogits));
  const sums = parts.map((part) => floats(part.expSums));
  if ([...highest, ...sums].some(({ length }) => length !== batch)) {
    throw new InternalError(`the shards did not answer ${batch} samples, which were asked`);
  }
  const logits = parts.map((part) => floats(part.labelLogits));
  logits.forEach(({ length }, shard) => {
    const asked = labels[shard]!.offsets[batch]!;
    if (length !== asked) {
      throw new InternalError(`shard ${shard} answered ${length} labels; ${asked} were asked`);
    }
  });
  const softmax = kind === "softmax";
  const logPartitions = new Float32Array(softmax ? batch : 0);
  let total = 0;
  for (let i = 0; i < batch; ++i) {
    let partition = 0;
    if (softmax) {
      const top = highest.reduce((most, part) => Math.max(most, part[i]!), -Infinity);
      // A shard without rows for a sample answers (-inf, 0).
      const sum = sums.reduce(
        (all, part, s) => (part[i] === 0 ? all : all + part[i]! * Math.exp(highest[s]![i]! - top)),
        0,
      );
      partition = top + Math.log(sum);
      logPartitions[i] = partition;
    } else {
      partition = sums.reduce((all, part) => all + part[i]!, 0);
    }
    let [ofLabels, count] = [0, 0];
    logits.forEach((mine, s) => {
      const { offsets } = labels[s]!;
      for (let k = offsets[i]!; k < offsets[i + 1]!; ++k) ofLabels += mine[k]!;
      count += offsets[i + 1]! - offsets[i]!;
    });
    const loss = (softmax ? targets[i]! * count : 1) * partition - targets[i]! * ofLabels;
    if (!Number.isFinite(loss)) {
      throw new InvalidArgumentError(
        `the loss of sample ${i} of a batch is not finite: training has diverged; lower the ` +
          "learning rate",
      );
    }
    total += loss;
  }
  return { sum: total, logPartitions };
}

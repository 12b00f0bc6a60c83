// Lists of ids, one for each sample, and their cut by shard: slot = row % num_slots.

import { checkedFloats } from "./arguments.js";
import { InvalidArgumentError } from "./errors.js";

/** The ids of one sample, each once, with a value for each; none: all 1. */
export interface Sample {
  ids: ArrayLike<number>;
  values?: ArrayLike<number>;
}

/** Samples one after the other: sample i has offsets[i] .. offsets[i + 1] - 1, its ids ascending. */
export interface Batch {
  offsets: Uint32Array;
  ids: Uint32Array;
  values: Float32Array;
}

/** Checks and joins samples; ids are below `bound`. */
export function batchOf(samples: readonly Sample[], bound: number, what: string): Batch {
  const offsets = new Uint32Array(samples.length + 1);
  samples.forEach((sample, i) => (offsets[i + 1] = offsets[i]! + sample.ids.length));
  const total = offsets[samples.length]!;
  const batch = { offsets, ids: new Uint32Array(total), values: new Float32Array(total) };
  samples.forEach((sample, i) => {
    const { ids } = sample;
    const name = `${what}[${i}]`;
    const values = sample.values && checkedFloats(sample.values, ids.length, `${name}.values`);
    const order = Array.from({ length: ids.length }, (_, place) => place).sort(
      (a, b) => ids[a]! - ids[b]!,
    );
    order.forEach((place, k) => {
      const id = ids[place]!;
      const at = offsets[i]! + k;
      if (!Number.isInteger(id) || id < 0 || id >= bound) {
        throw new InvalidArgumentError(`${name}: id ${id} is outside [0, ${bound})`);
      }
      if (k > 0 && batch.ids[at - 1] === id) {
        throw new InvalidArgumentError(`${name} has id ${id} twice: name each once`);
      }
      batch.ids[at] = id;
      batch.values[at] = values ? values[place]! : 1;
    });
  });
  return batch;
}

/** Every sample with one more feature of value 1, behind its others. */
export function withBiasRow(batch: Batch, row: number): Batch {
  const samples = batch.offsets.length - 1;
  const offsets = batch.offsets.map((offset, i) => offset + i);
  const ids = new Uint32Array(offsets[samples]!);
  const values = new Float32Array(offsets[samples]!);
  for (let i = 0; i < samples; ++i) {
    const begin = batch.offsets[i]!;
    const end = batch.offsets[i + 1]!;
    ids.set(batch.ids.subarray(begin, end), offsets[i]!);
    values.set(batch.values.subarray(begin, end), offsets[i]!);
    ids[offsets[i + 1]! - 1] = row;
    values[offsets[i + 1]! - 1] = 1;
  }
  return { offsets, ids, values };
}

/** Each shard's part of every sample, by ordinal. `owners` names the shard of each slot. */
export function sliceBatch(owners: Uint16Array, shards: number, batch: Batch): Batch[] {
  return Array.from({ length: shards }, (_, shard) => {
    const ids: number[] = [];
    const values: number[] = [];
    const offsets = new Uint32Array(batch.offsets.length);
    for (let i = 0; i + 1 < batch.offsets.length; ++i) {
      for (let k = batch.offsets[i]!; k < batch.offsets[i + 1]!; ++k) {
        if (owners[batch.ids[k]! % owners.length] !== shard) continue;
        ids.push(batch.ids[k]!);
        values.push(batch.values[k]!);
      }
      offsets[i + 1] = ids.length;
    }
    return { offsets, ids: Uint32Array.from(ids), values: Float32Array.from(values) };
  });
}

/** What a model's training makes of the values of features: "raw" or "l2". */
export function transformed(batch: Batch, transform: string): Batch {
  if (transform === "raw") return batch;
  if (transform !== "l2") {
    throw new InvalidArgumentError(
      `the model's transform is "${transform}", whose weights only its training knows: ask ` +
        "dslide serve, or give hidden vectors",
    );
  }
  const values = Float32Array.from(batch.values);
  for (let i = 0; i + 1 < batch.offsets.length; ++i) {
    const mine = values.subarray(batch.offsets[i], batch.offsets[i + 1]);
    const length = Math.sqrt(mine.reduce((sum, value) => sum + value * value, 0));
    if (length > 0) mine.forEach((value, k) => (mine[k] = value / length));
  }
  return { ...batch, values };
}

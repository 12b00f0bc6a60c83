// First values of rows: a pure function of (model seed, table name, row id).

import { type TableSpec } from "./gen/dslide/v1/model_pb.js";
import { deriveKey, Draws, keyOfName } from "./random.js";

const INIT_PART = 0x1417;
const { fround } = Math;

function countOnes(word: number): number {
  word -= (word >>> 1) & 0x55555555;
  word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
  return Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

/**
 * The weights with which rows of a table begin, f32 [ids.length, dim]; biases begin as 0.
 * Of the table `name`, `dim` and `init` are read.
 */
export function firstRows(
  table: Pick<TableSpec, "name" | "dim" | "init">,
  modelSeed: bigint,
  ids: ArrayLike<number>,
): Float32Array {
  const dim = Number(table.dim ?? 0n);
  const values = new Float32Array(ids.length * dim);
  const kind = table.init?.kind ?? "gaussian";
  if (kind === "zero") return values;
  const given = table.init?.scale ?? 0;
  const scale = fround(given > 0 ? given : 1 / Math.sqrt(dim));
  // A uniform deviate plus a binomial one of 40 fair bits, brought to variance 1.
  const unit = fround(scale / fround(Math.sqrt(fround(10 + fround(1 / 12)))));
  const key = deriveKey(deriveKey(modelSeed, INIT_PART), keyOfName(table.name ?? ""));
  for (let row = 0; row < ids.length; ++row) {
    const draws = new Draws(deriveKey(key, ids[row]!));
    for (let column = 0; column < dim; ++column) {
      draws.draw(column);
      values[row * dim + column] =
        kind === "uniform"
          ? scale * fround(fround(2 * draws.uniform()) - 1)
          : unit * gaussian(draws);
    }
  }
  return values;
}

function gaussian(draws: Draws): number {
  const fraction = fround((draws.low & 0xffffff) * 2 ** -24 + 2 ** -25);
  const ones = countOnes(draws.high) + countOnes(draws.low >>> 24);
  return fround(ones - 20.5 + fraction);
}

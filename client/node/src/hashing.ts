// Fingerprints of hidden vectors: the addresses in a head's hash tables at which similar rows are
// found. docs/understand/hashing.md states the algorithms; results are equal, bit for bit, to those
// of every other client and of the shards.

import { type HashSpec } from "./gen/dslide/v1/model_pb.js";
import { deriveKey, Draws } from "./random.js";

const SIMHASH_PART = 1;
const DWTA_PART = 2;
const MIN_WIDTH = 16;
const EXTRAS = 2; // a query is extended by the constants 1 and 0
const MAX_PROBES = 64;

/** What decides a fingerprint; numbers as `resolvedHash` gives them. */
export interface HashSettings {
  family: "simhash" | "dwta";
  codesPerTable: number;
  numTables: number;
  /** Of dwta: a power of two. */
  binSize: number;
  seed: bigint;
}

/** Hashes hidden vectors. Immutable. */
export interface HashFamily {
  readonly numTables: number;
  readonly dim: number;
  /** Fingerprints u32 [batch, numTables] of hidden vectors f32 [batch, dim], both row-major. */
  hash(hidden: Float32Array): Uint32Array;
}

export function hashFamily(settings: HashSettings, dim: number): HashFamily {
  return settings.family === "dwta" ? new Dwta(settings, dim) : new SimHash(settings, dim);
}

/** The settings that shards use: with those chosen that the table's number of rows decides. */
export function resolvedHash(spec: HashSpec | undefined, rows: number): HashSettings {
  const family = spec?.family === "dwta" ? "dwta" : "simhash";
  const binSize = Number(spec?.binSize ?? 8n) || 8;
  let codes = Number(spec?.codesPerTable ?? 0n);
  if (codes === 0) {
    const bits = family === "dwta" ? Math.log2(binSize) : 1;
    const exact = Math.log2(Math.max(rows, 1) / 320) / bits;
    codes = Math.sign(exact) * Math.floor(Math.abs(exact) + 0.5); // halves go away from 0
    codes = Math.min(
      Math.max(codes, Math.max(1, Math.floor(4 / bits))),
      Math.max(1, Math.floor(16 / bits)),
    );
  }
  return {
    family,
    codesPerTable: codes,
    numTables: Number(spec?.numTables ?? 0n) || 12,
    binSize,
    seed: spec?.seed ?? 24301n,
  };
}

function signs(key: bigint, width: number): Float32Array {
  const draws = new Draws(key);
  const out = new Float32Array(width);
  for (let i = 0; i < width; ++i) {
    if (i % 64 === 0) draws.draw(i / 64);
    const bit = i % 64 < 32 ? draws.low >>> (i % 32) : draws.high >>> (i % 32);
    out[i] = bit & 1 ? -1 : 1;
  }
  return out;
}

/** The Walsh-Hadamard transform of x, in place; its length is a power of two. */
function hadamard(x: Float32Array): void {
  for (let distance = 1; distance < x.length; distance *= 2) {
    for (let start = 0; start < x.length; start += 2 * distance) {
      for (let i = start; i < start + distance; ++i) {
        const a = x[i]!;
        const b = x[i + distance]!;
        x[i] = a + b; // stored as f32: rounded once
        x[i + distance] = a - b;
      }
    }
  }
}

/** Signs of structured random projections: three rounds of random signs and a transform. */
class SimHash implements HashFamily {
  readonly numTables: number;
  readonly dim: number;
  readonly #codes: number;
  readonly #width: number;
  /** [blocks][3 rounds, and the sign of the extra that is 1]. */
  readonly #signs: Float32Array[][];

  constructor(settings: HashSettings, dim: number) {
    this.numTables = settings.numTables;
    this.dim = dim;
    this.#codes = settings.codesPerTable;
    let width = MIN_WIDTH;
    while (width < dim) width *= 2;
    this.#width = width;
    const family = deriveKey(settings.seed, SIMHASH_PART);
    const blocks = Math.ceil((this.#codes * this.numTables) / width);
    this.#signs = Array.from({ length: blocks }, (_, block) => {
      const key = deriveKey(family, block);
      return [0, 1, 2, 3].map((part) => signs(deriveKey(key, part), width));
    });
  }

  hash(hidden: Float32Array): Uint32Array {
    const batch = hidden.length / this.dim;
    const out = new Uint32Array(batch * this.numTables);
    const scale = 1 / this.#width;
    const x = new Float32Array(this.#width);
    const total = this.numTables * this.#codes;
    for (let sample = 0; sample < batch; ++sample) {
      const query = hidden.subarray(sample * this.dim, (sample + 1) * this.dim);
      this.#signs.forEach((rounds, block) => {
        x.fill(0);
        x.set(query);
        for (const round of rounds.slice(0, 3)) {
          for (let i = 0; i < x.length; ++i) x[i] = x[i]! * round[i]!;
          hadamard(x);
        }
        const extra = rounds[3]!;
        const first = block * this.#width;
        for (let i = 0; i < x.length && first + i < total; ++i) {
          if (Math.fround(Math.fround(x[i]! * scale) + extra[i]!) < 0) continue;
          const table = Math.floor((first + i) / this.#codes);
          const at = sample * this.numTables + table;
          out[at] = out[at]! | (1 << (first + i - table * this.#codes));
        }
      });
    }
    return out;
  }
}

function permutation(key: bigint, size: number): Uint32Array {
  const draws = new Draws(key);
  const order = Uint32Array.from({ length: size }, (_, i) => i);
  for (let i = size - 1, drawn = 0; i > 0; --i, ++drawn) {
    const other = draws.draw(drawn).below(i + 1);
    const kept = order[i]!;
    order[i] = order[other]!;
    order[other] = kept;
  }
  return order;
}

/** Densified winner-take-all: which of binSize permuted coordinates is largest. */
class Dwta implements HashFamily {
  readonly numTables: number;
  readonly dim: number;
  readonly #codes: number;
  readonly #codeBits: number;
  readonly #binSize: number;
  readonly #width: number;
  readonly #coordinates: Uint32Array; // [bins, width]
  readonly #probes: Draws;
  readonly #fallback: Draws;

  constructor(settings: HashSettings, dim: number) {
    this.numTables = settings.numTables;
    this.dim = dim;
    this.#codes = settings.codesPerTable;
    this.#binSize = settings.binSize;
    this.#codeBits = Math.log2(settings.binSize);
    const extended = dim + EXTRAS;
    const width = Math.min(settings.binSize, extended);
    this.#width = width;
    const perPermutation = Math.floor(extended / width);
    const bins = this.#codes * this.numTables;
    const family = deriveKey(settings.seed, DWTA_PART);
    const permutations = deriveKey(family, 0);
    this.#probes = new Draws(deriveKey(family, 1));
    this.#fallback = new Draws(deriveKey(family, 2));
    this.#coordinates = new Uint32Array(bins * width);
    for (let bin = 0; bin < bins; bin += perPermutation) {
      const order = permutation(deriveKey(permutations, bin / perPermutation), extended);
      const used = Math.min(perPermutation, bins - bin) * width;
      this.#coordinates.set(order.subarray(0, used), bin * width);
    }
  }

  hash(hidden: Float32Array): Uint32Array {
    const batch = hidden.length / this.dim;
    const out = new Uint32Array(batch * this.numTables);
    const bins = this.#codes * this.numTables;
    const winners = new Int32Array(bins);
    const query = new Float32Array(this.dim + EXTRAS);
    for (let sample = 0; sample < batch; ++sample) {
      query.set(hidden.subarray(sample * this.dim, (sample + 1) * this.dim));
      query[this.dim] = 1;
      this.#findWinners(query, winners);
      for (let bin = 0; bin < bins; ++bin) {
        const table = Math.floor(bin / this.#codes);
        const shift = (bin - table * this.#codes) * this.#codeBits;
        const at = sample * this.numTables + table;
        out[at] = out[at]! | (this.#code(winners, bin) << shift);
      }
    }
    return out;
  }

  /** The place of each bin's largest entry, the first of equal ones; -1 where all are 0. */
  #findWinners(query: Float32Array, winners: Int32Array): void {
    for (let bin = 0; bin < winners.length; ++bin) {
      let best = -1;
      let largest = -Infinity;
      for (let place = 0; place < this.#width; ++place) {
        const value = query[this.#coordinates[bin * this.#width + place]!]!;
        if (value !== 0 && value > largest) {
          largest = value;
          best = place;
        }
      }
      winners[bin] = best;
    }
  }

  #code(winners: Int32Array, bin: number): number {
    const own = winners[bin]!;
    if (own >= 0) return own;
    for (let attempt = 0; attempt < MAX_PROBES; ++attempt) {
      const lender = this.#probes.draw(bin * MAX_PROBES + attempt).below(winners.length);
      if (winners[lender]! >= 0) return winners[lender]!;
    }
    return this.#fallback.draw(bin).low & (this.#binSize - 1);
  }
}

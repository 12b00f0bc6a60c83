// Deterministic orders of points: the same in every client, so that trainers can share an epoch.
// docs/understand/wire.md, "Random numbers and the order of points", defines them.

import { InvalidArgumentError } from "./errors.js";
import { deriveKey, Draws } from "./random.js";

const EPOCH_PART = 0x65706f6368;
const SPLIT_PART = 0x73706c6974;
const ROUNDS = 8;
const IDENTITY_PROBE = 64;

/** A keyed bijection of [0, size): a Feistel network, walked until it falls into the range. */
class IndexPermutation {
  readonly size: number;
  readonly #lowRange: number;
  readonly #highRange: number;
  readonly #rounds: Draws[];

  constructor(size: number, key: bigint) {
    let bits = 0;
    while (2 ** bits < size) ++bits;
    const lowBits = Math.floor((bits + 1) / 2);
    this.size = size;
    this.#lowRange = 2 ** lowBits;
    this.#highRange = 2 ** (bits - lowBits);
    this.#rounds = Array.from(
      { length: ROUNDS },
      (_, round) => new Draws(BigInt.asUintN(64, key + BigInt(round))),
    );
  }

  at(index: number): number {
    let value = index;
    do {
      let low = value % this.#lowRange;
      let high = Math.floor(value / this.#lowRange);
      for (let round = 0; round < ROUNDS; round += 2) {
        high = (high ^ (this.#rounds[round]!.draw(low).low & (this.#highRange - 1))) >>> 0;
        low = (low ^ (this.#rounds[round + 1]!.draw(high).low & (this.#lowRange - 1))) >>> 0;
      }
      value = high * this.#lowRange + low;
    } while (value >= this.size);
    return value;
  }
}

/** The order in which one epoch visits the points; never the order of the file. */
export class EpochOrder {
  readonly #permutation: IndexPermutation;

  constructor(numPoints: number, seed: bigint, epoch: number) {
    const key = deriveKey(deriveKey(seed, EPOCH_PART), epoch);
    let permutation = new IndexPermutation(numPoints, key);
    for (let attempt = 1; numPoints > 1 && isIdentity(permutation); ++attempt) {
      permutation = new IndexPermutation(numPoints, deriveKey(key, attempt));
    }
    this.#permutation = permutation;
  }

  pointAt(position: number): number {
    return this.#permutation.at(position);
  }
}

function isIdentity(permutation: IndexPermutation): boolean {
  const probe = Math.min(permutation.size, IDENTITY_PROBE);
  for (let i = 0; i < probe; ++i) if (permutation.at(i) !== i) return false;
  for (let i = probe; i < permutation.size; ++i) if (permutation.at(i) !== i) return false;
  return true;
}

/** Which points are held out for validation, by seed alone. */
export class TrainingSplit {
  readonly numValidation: number;
  readonly numTraining: number;
  readonly #permutation: IndexPermutation;

  /** maxValidation 0: no maximum. */
  constructor(numPoints: number, seed: bigint, fraction: number, maxValidation: number) {
    if (!(numPoints >= 1)) {
      throw new InvalidArgumentError(`cannot split ${numPoints} points; at least 1 is needed`);
    }
    if (!(fraction >= 0 && fraction <= 0.5)) {
      throw new InvalidArgumentError(`validation fraction ${fraction} is outside [0, 0.5]`);
    }
    const heldOut = Math.floor(numPoints * fraction);
    this.numValidation = maxValidation > 0 ? Math.min(heldOut, maxValidation) : heldOut;
    this.numTraining = numPoints - this.numValidation;
    this.#permutation = new IndexPermutation(numPoints, deriveKey(seed, SPLIT_PART));
  }

  /** The index in the data of a training point in [0, numTraining). */
  trainingPoint(index: number): number {
    return this.numValidation === 0 ? index : this.#permutation.at(this.numValidation + index);
  }

  /** The index in the data of a validation point in [0, numValidation). */
  validationPoint(index: number): number {
    return this.#permutation.at(index);
  }
}

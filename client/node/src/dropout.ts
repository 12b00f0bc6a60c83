// What the steps of an epoch leave out. docs/understand/wire.md, "Random numbers and the order of
// points", defines it.

import { InvalidArgumentError } from "./errors.js";
import { deriveKey, Draws } from "./random.js";
import { type Batch } from "./samples.js";

const FEATURE_PART = 0x696e64;
const UNIT_PART = 0x68646f;

/**
 * Dropout: a pure function of the job's seed, the epoch and the point, so that every client leaves
 * out the same.
 */
export class Dropout {
  /** Of units that stay, and of their gradients: 1 / (1 - hidden), in f32. */
  readonly scale: number;
  readonly #input: number;
  readonly #hidden: number;

  /** Probabilities of a feature and of a hidden unit, [0, 1). */
  constructor(
    readonly seed: bigint,
    readonly epoch: number,
    input: number,
    hidden: number,
  ) {
    for (const p of [input, hidden]) {
      if (!(p >= 0 && p < 1)) {
        throw new InvalidArgumentError(`probability ${p} of dropout is outside [0, 1)`);
      }
    }
    this.#input = Math.fround(input);
    this.#hidden = Math.fround(hidden);
    this.scale = scaleOf(this.#hidden);
  }

  /**
   * The features that stay, with their transformed values times 1 / (1 - input). points: of each
   * sample its index in the data.
   */
  features(batch: Batch, points: readonly number[]): Batch {
    if (this.#input === 0) return batch;
    const scale = scaleOf(this.#input);
    const key = deriveKey(deriveKey(this.seed, FEATURE_PART), this.epoch);
    const [ids, values]: [number[], number[]] = [[], []];
    const offsets = new Uint32Array(batch.offsets.length);
    points.forEach((point, sample) => {
      const draws = new Draws(deriveKey(key, point));
      const begin = batch.offsets[sample]!;
      for (let k = begin; k < batch.offsets[sample + 1]!; ++k) {
        if (draws.draw(k - begin).uniform() < this.#input) continue;
        ids.push(batch.ids[k]!);
        values.push(batch.values[k]! * scale);
      }
      offsets[sample + 1] = ids.length;
    });
    return { offsets, ids: Uint32Array.from(ids), values: Float32Array.from(values) };
  }

  /**
   * Leaves out units of a layer, in place, and scales those that stay. Layer 0 is the embedding;
   * units: f32 [points.length, width].
   */
  units(layer: number, points: readonly number[], units: Float32Array): Float32Array {
    if (this.#hidden === 0) return units;
    const width = units.length / points.length;
    const key = deriveKey(deriveKey(deriveKey(this.seed, UNIT_PART), layer), this.epoch);
    points.forEach((point, sample) => {
      const draws = new Draws(deriveKey(key, point));
      for (let unit = 0; unit < width; ++unit) {
        const at = sample * width + unit;
        units[at] = draws.draw(unit).uniform() < this.#hidden ? 0 : units[at]! * this.scale;
      }
    });
    return units;
  }
}

function scaleOf(p: number): number {
  return Math.fround(1 / Math.fround(1 - p));
}

// Arrays that callers give, checked before anything is sent.

import { InvalidArgumentError } from "./errors.js";

/** Row ids, each an integer in [0, rows). */
export function checkedIds(ids: ArrayLike<number>, rows: number, what: string): Uint32Array {
  const out = new Uint32Array(ids.length);
  for (let i = 0; i < ids.length; ++i) {
    const id = ids[i]!;
    if (!Number.isInteger(id)) {
      throw new InvalidArgumentError(`${what}: id ${id} at ${i} is no integer`);
    }
    if (id < 0 || id >= rows) {
      throw new InvalidArgumentError(`${what}: id ${id} is outside [0, ${rows})`);
    }
    out[i] = id;
  }
  return out;
}

/** `count` finite numbers as f32; without a copy where they are. */
export function checkedFloats(
  numbers: ArrayLike<number>,
  count: number,
  what: string,
): Float32Array {
  if (numbers.length !== count) {
    throw new InvalidArgumentError(`${what} has ${numbers.length} numbers, must have ${count}`);
  }
  const array = numbers instanceof Float32Array ? numbers : Float32Array.from(numbers);
  if (!areFinite(array)) {
    const place = array.findIndex((number) => !Number.isFinite(number));
    throw new InvalidArgumentError(`${what} has ${numbers[place]} at ${place}, must be finite in f32`);
  }
  return array;
}

/** Sums in f64, which finite numbers of f32 cannot make infinite; several, since additions wait. */
function areFinite(array: Float32Array): boolean {
  let [a, b, c, d] = [0, 0, 0, 0];
  const whole = array.length - (array.length % 8);
  for (let i = 0; i < whole; i += 8) {
    a += array[i]! + array[i + 1]!;
    b += array[i + 2]! + array[i + 3]!;
    c += array[i + 4]! + array[i + 5]!;
    d += array[i + 6]! + array[i + 7]!;
  }
  for (let i = whole; i < array.length; ++i) a += array[i]!;
  return Number.isFinite(a + b + c + d);
}

/** Hidden vectors f32 [batch, dim], row-major. */
export function checkedHidden(
  hidden: ArrayLike<number>,
  dim: number,
  what: string,
): Float32Array {
  if (hidden.length % dim !== 0) {
    throw new InvalidArgumentError(
      `${what} has ${hidden.length} numbers, must have ${dim} for each sample`,
    );
  }
  return checkedFloats(hidden, hidden.length, what);
}

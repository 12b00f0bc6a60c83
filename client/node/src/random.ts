// Counter-based random numbers: a value is a pure function of (key, counter), equal bit for bit to
// that of the shards and of every other client. docs/understand/hashing.md defines them.
//
// A 64-bit word is held as two halves: numbers of JavaScript have 53 bits, and BigInts are slow.

const GOLDEN_HIGH = 0x9e3779b9;
const GOLDEN_LOW = 0x7f4a7c15;
const DERIVE = 0x6a09e667f3bcc909n;
const TWO_32 = 2 ** 32;

// Halves of the last result of multiply() and mix(): returned so, nothing is allocated.
let high = 0;
let low = 0;

function multiply(aHigh: number, aLow: number, bHigh: number, bLow: number): void {
  const a0 = aLow & 0xffff;
  const a1 = aLow >>> 16;
  const b0 = bLow & 0xffff;
  const b1 = bLow >>> 16;
  const p00 = a0 * b0;
  const p01 = a0 * b1;
  const p10 = a1 * b0;
  const middle = (p00 >>> 16) + (p01 & 0xffff) + (p10 & 0xffff);
  const carry = a1 * b1 + (p01 >>> 16) + (p10 >>> 16) + (middle >>> 16);
  low = ((middle << 16) | (p00 & 0xffff)) >>> 0;
  high = (Math.imul(aHigh, bLow) + Math.imul(aLow, bHigh) + carry) >>> 0;
}

function mix(h: number, l: number): void {
  multiply((h ^ (h >>> 30)) >>> 0, (l ^ ((h << 2) | (l >>> 30))) >>> 0, 0xbf58476d, 0x1ce4e5b9);
  h = high;
  l = low;
  multiply((h ^ (h >>> 27)) >>> 0, (l ^ ((h << 5) | (l >>> 27))) >>> 0, 0x94d049bb, 0x133111eb);
  h = high;
  l = low;
  high = (h ^ (h >>> 31)) >>> 0;
  low = (l ^ ((h << 1) | (l >>> 31))) >>> 0;
}

/** The numbers of one key. `draw` leaves 64 random bits in `high` and `low`, each a u32. */
export class Draws {
  high = 0;
  low = 0;
  readonly #keyHigh: number;
  readonly #keyLow: number;
  readonly #mixedHigh: number;
  readonly #mixedLow: number;

  constructor(key: bigint) {
    this.#keyHigh = Number((key >> 32n) & 0xffffffffn);
    this.#keyLow = Number(key & 0xffffffffn);
    const sum = this.#keyLow + GOLDEN_LOW;
    mix((this.#keyHigh + GOLDEN_HIGH + (sum >= TWO_32 ? 1 : 0)) >>> 0, sum >>> 0);
    this.#mixedHigh = high;
    this.#mixedLow = low;
  }

  /** The bits of a counter, an integer in [0, 2^53). */
  draw(counter: number): this {
    return this.drawHalves(Math.floor(counter / TWO_32), counter >>> 0);
  }

  /** The same of a counter in two halves, each a u32. */
  drawHalves(counterHigh: number, counterLow: number): this {
    multiply(counterHigh, counterLow, GOLDEN_HIGH, GOLDEN_LOW);
    const sum = low + this.#keyLow;
    const sumHigh = high + this.#keyHigh + (sum >= TWO_32 ? 1 : 0);
    mix((this.#mixedHigh ^ sumHigh) >>> 0, (this.#mixedLow ^ sum) >>> 0);
    this.high = high;
    this.low = low;
    return this;
  }

  /** The last bits as one word. */
  word(): bigint {
    return (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  /** The last bits as a number in [0, 1), of 24 bits. */
  uniform(): number {
    return (this.high >>> 8) * 2 ** -24;
  }

  /** The last bits as an integer in [0, bound), bound at most 2^21. */
  below(bound: number): number {
    const carry = Math.floor((this.low * bound) / TWO_32);
    return Math.floor((this.high * bound + carry) / TWO_32);
  }
}

/** A key for a named part of a larger key; both are words of 64 bits. */
export function deriveKey(key: bigint, part: number | bigint): bigint {
  const draws = new Draws(BigInt.asUintN(64, key) ^ DERIVE);
  const word = BigInt.asUintN(64, BigInt(part));
  return draws.drawHalves(Number(word >> 32n), Number(word & 0xffffffffn)).word();
}

/** A key of a table's name. */
export function keyOfName(name: string): bigint {
  let key = 0n;
  for (const byte of new TextEncoder().encode(name)) key = deriveKey(key, byte);
  return key;
}

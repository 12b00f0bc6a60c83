// Labelled sparse points: the text format of docs/start/data.md.

import { readFile } from "node:fs/promises";
import { gunzipSync } from "node:zlib";
import { InvalidArgumentError, NotFoundError } from "./errors.js";
import { deriveKey, Draws } from "./random.js";
import { type Sample } from "./samples.js";

const MAX_ID = 2 ** 31;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
// What of a text is looked at for its fingerprint.
const ENDS = 64 << 10;
const BLOCK = 4 << 10;
const BLOCKS = 64;

/** A point with its features, and its labels; ids ascend. */
export interface Point extends Sample {
  ids: Uint32Array;
  values: Float32Array;
  labels: Uint32Array;
}

/** Points in memory. All trainers of a job agree on `fingerprint`; that of a file is the programs'. */
export interface PointSet {
  points: readonly Point[];
  numFeatures: number;
  numLabels: number;
  fingerprint: bigint;
}

/**
 * Reads a file of the sparse text format, plain or .gz, into memory. InvalidArgumentError naming
 * file and line of the first malformed place.
 */
export async function readPoints(path: string): Promise<PointSet> {
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new NotFoundError(`there is no file ${path}`);
    throw new InvalidArgumentError(`cannot read ${path}: ${message}`);
  }
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    try {
      bytes = gunzipSync(bytes);
    } catch (error) {
      throw new InvalidArgumentError(`cannot unpack ${path}: ${(error as Error).message}`);
    }
  }
  return parsePoints(bytes, path);
}

/** Parses the content of such a file; `name` is what errors call it. */
export function parsePoints(bytes: Uint8Array, name: string): PointSet {
  let end = bytes.length;
  while (end > 0 && (bytes[end - 1] === 10 || bytes[end - 1] === 13)) --end;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, end);
  const lines = text.toString("latin1").split("\n");
  const sizes = words(lines[0]!).map((word) => integer(word, MAX_ID + 1));
  const [count, numFeatures, numLabels] = sizes as [number, number, number];
  if (sizes.length !== 3 || sizes.some((size) => !(size >= 1))) {
    throw malformed(name, 1, lines[0]!, `points features labels, each in [1, ${MAX_ID}]`);
  }
  if (lines.length - 1 !== count) {
    const found = `${lines.length - 1} points, expected ${count} as the header says`;
    throw new InvalidArgumentError(`${name}:${lines.length}: found ${found}`);
  }
  const points = lines.slice(1).map((line, i) => parseLine(line, numFeatures, numLabels, name, i + 2));
  const key = deriveKey(deriveKey(BigInt(count), numFeatures), numLabels);
  return { points, numFeatures, numLabels, fingerprint: hashSample(key, text) };
}

function malformed(name: string, line: number, found: string, expected: string): Error {
  const short = JSON.stringify(found.slice(0, 40));
  return new InvalidArgumentError(`${name}:${line}: found ${short}, expected ${expected}`);
}

function words(line: string): string[] {
  return line.trim().split(/[ \t]+/).filter((word) => word !== "");
}

/** A decimal integer below `bound`; else NaN. */
function integer(word: string, bound: number): number {
  const value = /^\d{1,10}$/.test(word) ? Number(word) : NaN;
  return value < bound ? value : NaN;
}

/** Of "label,label feature:value feature:value"; without labels, the line begins with a blank. */
function parseLine(text: string, features: number, labels: number, name: string, line: number): Point {
  const parts = words(text);
  const fail = (found: string, expected: string) => malformed(name, line, found, expected);
  if (parts.length === 0) throw fail("", "a point");
  const own: number[] = [];
  if (!/^[ \t]/.test(text) && !parts[0]!.includes(":")) {
    for (const word of parts.shift()!.split(",")) {
      const label = integer(word, labels);
      if (Number.isNaN(label)) throw fail(word, `a label id in [0, ${labels})`);
      own.push(label);
    }
  }
  const pairs = parts.map((word): [number, number] => {
    const [id = "", value = ""] = word.split(/:(.*)/s);
    const feature = integer(id, features);
    if (Number.isNaN(feature)) throw fail(id, `feature:value with a feature id in [0, ${features})`);
    const number = Math.fround(NUMBER.test(value) ? Number(value) : NaN);
    if (!Number.isFinite(number)) throw fail(value, "a finite decimal number");
    return [feature, number];
  });
  pairs.sort(([a], [b]) => a - b);
  const ids = Uint32Array.from(pairs, ([id]) => id);
  const sorted = Uint32Array.from(own).sort();
  for (const all of [ids, sorted]) {
    const twice = all.find((id, i) => i > 0 && id === all[i - 1]);
    if (twice === undefined) continue;
    throw new InvalidArgumentError(`${name}:${line}: the point has id ${twice} twice`);
  }
  return { ids, values: Float32Array.from(pairs, ([, value]) => value), labels: sorted };
}

const CASTAGNOLI = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; ++bit) value = (value >>> 1) ^ (value & 1 ? 0x82f63b78 : 0);
  return value >>> 0;
});

function crc32c(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) value = (value >>> 8) ^ CASTAGNOLI[(value ^ byte) & 0xff]!;
  return (value ^ 0xffffffff) >>> 0;
}

/** Mixes the size of the text and a sample of it, at most 400 KB, into the key. */
function hashSample(key: bigint, text: Uint8Array): bigint {
  const pieces = [text.subarray(0, ENDS)];
  if (text.length > ENDS) {
    pieces.push(text.subarray(text.length - ENDS));
    const stride = Math.max(BLOCK, Math.floor(text.length / BLOCKS));
    for (let at = 0; at < text.length; at += stride) pieces.push(text.subarray(at, at + BLOCK));
  }
  let value = new Draws(key).draw(text.length).word();
  for (const piece of pieces) {
    value = new Draws(value).draw(piece.length).word();
    value = new Draws(value).draw(crc32c(piece)).word();
  }
  return value;
}

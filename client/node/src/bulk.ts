// Requests of many rows, as bytes: numbers are copied once, where generated code does it thrice.
// What is on the wire is ordinary protobuf.

import { toBinary, create } from "@bufbuild/protobuf";
import { ElementType, MatrixSchema } from "./gen/dslide/v1/common_pb.js";
import { bytesOf } from "./arrays.js";

const BYTES_FIELD = 2;
const MAX_KEPT = 16;

/**
 * Memory of the messages of one call after the other. Made anew for each, it would cost as much as
 * the copying: pages that are touched first, and collections, since V8 counts it.
 */
export class MessageMemory {
  #free: Buffer[] = [];

  /** Room for a message of a call; `taken` are those of this call. */
  take(size: number, taken: Buffer[]): Buffer {
    let memory = this.#free.pop();
    if (!memory || memory.length < size) memory = Buffer.allocUnsafe(size);
    taken.push(memory);
    return memory.subarray(0, size);
  }

  /** What a call has taken, once its answer is there: after a failure somebody may still read it. */
  giveBack(taken: readonly Buffer[]): void {
    this.#free = [...this.#free, ...taken].slice(-MAX_KEPT);
  }
}

/** What stands before the `size` bytes of a field. */
function head(number: number, size: number): number[] {
  const out: number[] = [];
  for (let value of [(number << 3) | BYTES_FIELD, size]) {
    for (; value >= 0x80; value >>>= 7) out.push((value & 0x7f) | 0x80);
    out.push(value);
  }
  return out;
}

/** Rows to be sent: ids u32 [n], values f32 [n, dim], biases f32 [n] or none. */
export interface Block {
  ids: Uint32Array;
  values: Float32Array;
  biases: Float32Array | undefined;
}

/**
 * A ScatterRequest with the rows of `block` at `places`; `others` are the bytes of its other fields,
 * `room` is asked for its memory. Places ascend.
 */
export function scatterMessage(
  others: Uint8Array,
  block: Block,
  places: Uint32Array,
  room: (size: number) => Buffer,
): Buffer {
  const rows = places.length;
  const dim = block.ids.length === 0 ? 0 : block.values.length / block.ids.length;
  const shape = toBinary(
    MatrixSchema,
    create(MatrixSchema, { rows, cols: dim, elementType: ElementType.F32 }),
  );
  const dataHead = head(4, rows * dim * 4);
  const idsHead = head(1, rows * 4);
  const valuesSize = shape.length + dataHead.length + rows * dim * 4;
  const valuesHead = head(2, valuesSize);
  const biasesHead = block.biases ? head(3, rows * 4) : [];
  const blockSize =
    idsHead.length + rows * 4 + valuesHead.length + valuesSize +
    biasesHead.length + (block.biases ? rows * 4 : 0);
  const blockHead = head(4, blockSize);
  const out = room(others.length + blockHead.length + blockSize);
  let at = 0;
  const put = (bytes: ArrayLike<number>): void => {
    out.set(bytes, at);
    at += bytes.length;
  };
  put(others);
  put(blockHead);
  put(idsHead);
  put(bytesOf(taken(block.ids, places)));
  put(valuesHead);
  put(shape);
  put(dataHead);
  forEachRun(places, (first, count) => {
    put(bytesOf(block.values.subarray(first * dim, (first + count) * dim)));
  });
  if (block.biases) {
    put(biasesHead);
    put(bytesOf(taken(block.biases, places)));
  }
  return out;
}

/** The numbers at some places. */
export function taken<T extends Uint32Array | Float32Array>(array: T, places: Uint32Array): T {
  const some = new (array.constructor as new (length: number) => T)(places.length);
  for (let i = 0; i < places.length; ++i) some[i] = array[places[i]!]!;
  return some;
}

/** Calls `visit` for each run of consecutive places: its first one, its length, where it begins. */
export function forEachRun(
  places: Uint32Array,
  visit: (first: number, count: number, begin: number) => void,
): void {
  for (let begin = 0; begin < places.length; ) {
    let end = begin + 1;
    while (end < places.length && places[end] === places[end - 1]! + 1) ++end;
    visit(places[begin]!, end - begin, begin);
    begin = end;
  }
}

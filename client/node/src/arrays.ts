// Arrays as they travel: little-endian bytes, bf16, packed ids. docs/understand/wire.md, "Arrays".

import { create } from "@bufbuild/protobuf";
import { ElementType, type Matrix, MatrixSchema } from "./gen/dslide/v1/common_pb.js";
import { InternalError } from "./errors.js";

// Bytes are viewed as numbers where they lie; no port of Node that is kept is big-endian but s390x.
if (new Uint8Array(Uint16Array.of(1).buffer)[0] !== 1) {
  throw new Error("dslide needs a little-endian machine");
}

/** The bytes of an array, without a copy. */
export function bytesOf(array: Float32Array | Uint32Array | Uint16Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function aligned(bytes: Uint8Array, width: number): Uint8Array {
  if (bytes.byteLength % width !== 0) {
    throw new InternalError(`a peer sent ${bytes.byteLength} bytes of numbers of ${width} bytes`);
  }
  return bytes.byteOffset % width === 0 ? bytes : new Uint8Array(bytes);
}

/** Received f32 numbers; a view where the bytes are aligned. */
export function floats(bytes: Uint8Array): Float32Array {
  const whole = aligned(bytes, 4);
  return new Float32Array(whole.buffer, whole.byteOffset, whole.byteLength / 4);
}

/** Received u32 numbers; as `floats`. */
export function u32s(bytes: Uint8Array): Uint32Array {
  const whole = aligned(bytes, 4);
  return new Uint32Array(whole.buffer, whole.byteOffset, whole.byteLength / 4);
}

/** Received u16 numbers; as `floats`. */
export function u16s(bytes: Uint8Array): Uint16Array {
  const whole = aligned(bytes, 2);
  return new Uint16Array(whole.buffer, whole.byteOffset, whole.byteLength / 2);
}

/** The upper halves of f32 numbers, rounded to nearest, ties to even; NaN stays NaN. */
export function toBf16(numbers: Float32Array): Uint16Array {
  const bits = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
  const halves = new Uint16Array(numbers.length);
  for (let i = 0; i < bits.length; ++i) {
    const word = bits[i]!;
    halves[i] =
      (word & 0x7fffffff) > 0x7f800000
        ? (word >>> 16) | 0x40
        : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return halves;
}

/** Exact. */
export function fromBf16(halves: Uint16Array): Float32Array {
  const bits = new Uint32Array(halves.length);
  for (let i = 0; i < halves.length; ++i) bits[i] = halves[i]! << 16;
  return new Float32Array(bits.buffer);
}

/** The message of f32 [rows, cols], row-major. */
export function matrix(rows: number, cols: number, numbers: Float32Array): Matrix {
  const data = bytesOf(numbers);
  return create(MatrixSchema, { rows, cols, elementType: ElementType.F32, data });
}

/** The same rounded to bf16, in half of the bytes. */
export function bf16Matrix(rows: number, cols: number, numbers: Float32Array): Matrix {
  const data = bytesOf(toBf16(numbers));
  return create(MatrixSchema, { rows, cols, elementType: ElementType.BF16, data });
}

/** The numbers of a received matrix, f32 [rows, cols]. */
export function fromMatrix(message: Matrix): Float32Array {
  const numbers =
    message.elementType === ElementType.BF16
      ? fromBf16(u16s(message.data))
      : floats(message.data);
  if (numbers.length !== message.rows * message.cols) {
    throw new InternalError(
      `a peer sent ${numbers.length} numbers as [${message.rows}, ${message.cols}]`,
    );
  }
  return numbers;
}

/** Room for one number as a varint: at most 5 bytes of a u32. */
const VARINT_BYTES = 5;

/**
 * The ids of samples as base-128 varints: for each sample the number of its ids, the first one, and
 * for each further one its distance from the one before, less 1.
 *
 * offsets: [samples + 1], ascending from 0. ids: strictly ascending within a sample.
 */
export function packIds(offsets: ArrayLike<number>, ids: ArrayLike<number>): Uint8Array {
  const bytes = new Uint8Array((ids.length + offsets.length) * VARINT_BYTES);
  let at = 0;
  const put = (number: number): void => {
    for (; number >= 0x80; number = Math.floor(number / 0x80)) bytes[at++] = (number % 0x80) | 0x80;
    bytes[at++] = number;
  };
  for (let sample = 0; sample + 1 < offsets.length; ++sample) {
    const begin = offsets[sample]!;
    const end = offsets[sample + 1]!;
    put(end - begin);
    for (let i = begin; i < end; ++i) put(i === begin ? ids[i]! : ids[i]! - ids[i - 1]! - 1);
  }
  return bytes.subarray(0, at);
}

package dev.dslide;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The bulk numbers of messages: little-endian bytes, bf16 and packed ids. {@code docs/understand/wire.md},
 * section "Arrays", defines them.
 */
public final class Numbers {
  private Numbers() {}

  /** The upper half of a number, rounded to nearest, ties to even. A NaN stays one. */
  public static short toBf16(float x) {
    int bits = Float.floatToRawIntBits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) {
      return (short) (bits >>> 16 | 0x40);
    }
    return (short) (bits + 0x7fff + (bits >>> 16 & 1) >>> 16);
  }

  /** The number of a half; exact. */
  public static float fromBf16(short half) {
    return Float.intBitsToFloat(half << 16);
  }

  /** Rounds numbers in place. */
  public static void roundToBf16(float[] x) {
    for (int i = 0; i < x.length; i++) {
      x[i] = fromBf16(toBf16(x[i]));
    }
  }

  private static ByteBuffer buffer(int size) {
    return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
  }

  static ByteBuffer view(ByteString data) {
    return data.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  /** The bytes of f32 numbers. */
  public static ByteString floats(float[] x) {
    ByteBuffer data = buffer(4 * x.length);
    data.asFloatBuffer().put(x);
    return UnsafeByteOperations.unsafeWrap(data); // nobody else has it
  }

  /** The bytes of numbers rounded to bf16. */
  public static ByteString bf16(float[] x) {
    ByteBuffer data = buffer(2 * x.length);
    for (int i = 0; i < x.length; i++) {
      data.putShort(2 * i, toBf16(x[i]));
    }
    return UnsafeByteOperations.unsafeWrap(data);
  }

  /** The bytes of u32 numbers. */
  public static ByteString ids(int[] x) {
    ByteBuffer data = buffer(4 * x.length);
    data.asIntBuffer().put(x);
    return UnsafeByteOperations.unsafeWrap(data);
  }

  /** Reads f32 numbers. A rest of fewer than 4 bytes is left out. */
  public static float[] toFloats(ByteString data) {
    float[] x = new float[data.size() / 4];
    view(data).asFloatBuffer().get(x);
    return x;
  }

  /** Reads u32 numbers. A rest of fewer than 4 bytes is left out. */
  public static int[] toIds(ByteString data) {
    int[] x = new int[data.size() / 4];
    view(data).asIntBuffer().get(x);
    return x;
  }

  /**
   * Appends one sample's ids, ids[first .. end), strictly ascending, to packed ids: their number, the
   * first one, and for each further one its distance from the one before, less 1.
   */
  public static void appendPackedIds(ByteArrayOutputStream packed, int[] ids, int first, int end) {
    appendVarint(packed, end - first);
    int next = 0;
    for (int i = first; i < end; i++) {
      appendVarint(packed, ids[i] - next & 0xffffffffL);
      next = ids[i] + 1;
    }
  }

  static void appendVarint(ByteArrayOutputStream into, long value) {
    for (; (value & ~0x7fL) != 0; value >>>= 7) {
      into.write((int) (value & 0x7f | 0x80));
    }
    into.write((int) value);
  }

  static void checkFinite(float[] numbers, String what) {
    for (int i = 0; i < numbers.length; i++) {
      if (!Float.isFinite(numbers[i])) {
        throw Failures.invalid("%s: number %d is %s: it must be finite", what, i, numbers[i]);
      }
    }
  }
}

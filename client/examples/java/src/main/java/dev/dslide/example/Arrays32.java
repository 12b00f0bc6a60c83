package dev.dslide.example;

import com.google.protobuf.ByteString;
import dev.dslide.v1.ElementType;
import dev.dslide.v1.Matrix;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/** Arrays as the protos have them: little-endian, whatever this machine is. */
final class Arrays32 {
  private Arrays32() {}

  static ByteString u32s(List<Integer> numbers) {
    ByteBuffer bytes = littleEndian(ByteBuffer.allocate(4 * numbers.size()));
    numbers.forEach(bytes::putInt);
    return ByteString.copyFrom(bytes.flip());
  }

  static ByteString f32s(float[] numbers) {
    ByteBuffer bytes = littleEndian(ByteBuffer.allocate(4 * numbers.length));
    bytes.asFloatBuffer().put(numbers);
    return ByteString.copyFrom(bytes);
  }

  static int[] u32s(ByteString data) {
    int[] numbers = new int[data.size() / 4];
    littleEndian(data.asReadOnlyByteBuffer()).asIntBuffer().get(numbers);
    return numbers;
  }

  static float[] f32s(ByteString data) {
    float[] numbers = new float[data.size() / 4];
    littleEndian(data.asReadOnlyByteBuffer()).asFloatBuffer().get(numbers);
    return numbers;
  }

  static Matrix matrix(int rows, float[] numbers) {
    return Matrix.newBuilder().setRows(rows).setCols(numbers.length / rows)
        .setElementType(ElementType.ELEMENT_TYPE_F32).setData(f32s(numbers)).build();
  }

  static float[] numbersOf(Matrix matrix) {
    if (matrix.getElementType() != ElementType.ELEMENT_TYPE_BF16) return f32s(matrix.getData());
    ByteBuffer halves = littleEndian(matrix.getData().asReadOnlyByteBuffer());
    float[] numbers = new float[halves.remaining() / 2];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = Float.intBitsToFloat(halves.getShort() << 16);
    }
    return numbers;
  }

  /** To nearest, ties to even. */
  static float roundToBf16(float x) {
    int bits = Float.floatToRawIntBits(x);
    return Float.intBitsToFloat((bits + 0x7fff + (bits >>> 16 & 1)) & 0xffff0000);
  }

  private static ByteBuffer littleEndian(ByteBuffer bytes) {
    return bytes.order(ByteOrder.LITTLE_ENDIAN);
  }
}

package dev.dslide;

import dev.dslide.v1.ElementType;
import dev.dslide.v1.Matrix;

/** Dense matrices of messages. */
final class Matrices {
  private Matrices() {}

  /** In f32, or in bf16 where the model's activations are. */
  static Matrix of(float[] x, int rows, boolean halves) {
    return Matrix.newBuilder().setRows(rows).setCols(rows == 0 ? 0 : x.length / rows)
        .setElementType(halves ? ElementType.ELEMENT_TYPE_BF16 : ElementType.ELEMENT_TYPE_F32)
        .setData(halves ? Numbers.bf16(x) : Numbers.floats(x)).build();
  }

  static float[] numbers(Peer from, Matrix matrix, int rows, int cols) {
    boolean halves = matrix.getElementType() == ElementType.ELEMENT_TYPE_BF16;
    long expected = (halves ? 2L : 4L) * rows * cols;
    if (matrix.getRows() != rows || matrix.getCols() != cols || matrix.getData().size() != expected) {
      throw Failures.internal("%s answered %d bytes of [%d, %d], expected [%d, %d]", from.name(),
          matrix.getData().size(), matrix.getRows(), matrix.getCols(), rows, cols);
    }
    if (!halves) {
      return Numbers.toFloats(matrix.getData());
    }
    float[] numbers = new float[rows * cols];
    var data = Numbers.view(matrix.getData()).asShortBuffer();
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = Numbers.fromBf16(data.get(i));
    }
    return numbers;
  }

  /** Adds the shards' parts up in f32, in shard order, so that every client gets the same bits. */
  static float[] sum(Shards shards, Matrix[] parts, int rows, int cols) {
    float[] sum = new float[rows * cols];
    for (int ordinal = 0; ordinal < parts.length; ordinal++) {
      float[] numbers = numbers(shards.get(ordinal).peer(), parts[ordinal], rows, cols);
      for (int i = 0; i < sum.length; i++) {
        sum[i] += numbers[i];
      }
    }
    return sum;
  }
}

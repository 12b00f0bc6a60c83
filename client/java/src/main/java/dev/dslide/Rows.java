package dev.dslide;

/**
 * Rows of a table with their biases. The arrays are the caller's.
 *
 * @param values [n, dim]
 * @param biases [n], of heads and dense tables; else null
 */
public record Rows(float[] values, float[] biases) {
  /** The rows at some places of these. */
  Rows take(int[] places, int dim, Rows into) {
    Rows taken = into != null ? into : new Rows(new float[places.length * dim],
        biases == null ? null : new float[places.length]);
    for (int i = 0; i < places.length; i++) {
      System.arraycopy(values, places[i] * dim, taken.values, i * dim, dim);
      if (biases != null) {
        taken.biases[i] = biases[places[i]];
      }
    }
    return taken;
  }
}

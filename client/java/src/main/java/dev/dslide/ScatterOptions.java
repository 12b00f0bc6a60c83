package dev.dslide;

/**
 * What a scatter may have beside its values.
 *
 * @param biases [n], for tables whose rows have one; null: 0, and unchanged by ADD
 * @param learningRate of this update by gradients; 0: the model's, by its schedule
 */
public record ScatterOptions(float[] biases, double learningRate) {
  /** Neither of them. */
  public static final ScatterOptions DEFAULT = new ScatterOptions(null, 0);

  /** Biases alone. */
  public static ScatterOptions biases(float[] biases) {
    return new ScatterOptions(biases, 0);
  }

  /** A learning rate alone. */
  public static ScatterOptions learningRate(double rate) {
    return new ScatterOptions(null, rate);
  }
}

package dev.dslide;

import dev.dslide.hashing.KeyedRandom;

/**
 * What the steps of an epoch leave out: a pure function of the job's seed, the epoch and the point, so
 * that every client leaves out the same. {@code docs/understand/wire.md} states it.
 *
 * @param seed of the job
 * @param epoch from 0
 * @param input probability of a feature, [0, 1)
 * @param hidden probability of a hidden unit, [0, 1)
 */
public record Dropout(long seed, long epoch, double input, double hidden) {
  private static final long FEATURES = 0x696E64;
  private static final long UNITS = 0x68646F;

  /**
   * The features that stay, with their values times 1 / (1 - input).
   *
   * @param features as the model sees them, after its transform
   * @param points of each sample its index in the data
   */
  public Sparse features(Sparse features, long[] points) {
    float p = (float) input;
    if (p == 0) {
      return features;
    }
    long key = KeyedRandom.derive(KeyedRandom.derive(seed, FEATURES), epoch);
    return features.filtered((sample, place) -> KeyedRandom.uniform(
        KeyedRandom.bits(KeyedRandom.derive(key, points[sample]), place)) >= p, 1 / (1 - p));
  }

  /**
   * Leaves out units of a layer, in place; those that stay are multiplied by {@link #scale}.
   *
   * @param layer 0 is the embedding
   * @param units [B, width]
   */
  public void units(int layer, long[] points, float[] units) {
    float p = (float) hidden;
    if (p == 0) {
      return;
    }
    int width = units.length / points.length;
    long ofLayer = KeyedRandom.derive(KeyedRandom.derive(KeyedRandom.derive(seed, UNITS), layer), epoch);
    for (int sample = 0; sample < points.length; sample++) {
      long key = KeyedRandom.derive(ofLayer, points[sample]);
      for (int unit = 0; unit < width; unit++) {
        boolean stays = KeyedRandom.uniform(KeyedRandom.bits(key, unit)) >= p;
        units[sample * width + unit] = stays ? units[sample * width + unit] * scale() : 0;
      }
    }
  }

  /** 1 / (1 - hidden): of units that stay, and of their gradients. */
  public float scale() {
    return 1 / (1 - (float) hidden);
  }
}

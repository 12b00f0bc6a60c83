package dev.dslide;

import dev.dslide.hashing.KeyedRandom;
import dev.dslide.v1.TableSpec;

/** The weights with which rows begin: a pure function of the model's seed, the table's name and the row. */
public final class FirstRows {
  private static final long PART = 0x1417;

  private FirstRows() {}

  /** Weights of rows of a table, [ids, dim]. Biases begin as 0. */
  public static float[] of(TableSpec table, long modelSeed, int[] ids) {
    int dim = (int) table.getDim();
    float[] values = new float[ids.length * dim];
    String kind = table.getInit().getKind();
    float scale = (float) table.getInit().getScale();
    if (kind.equals("zero")) {
      return values;
    }
    if (scale <= 0) {
      scale = (float) (1 / Math.sqrt(dim));
    }
    // A uniform deviate plus a binomial one of 40 fair bits has this variance.
    float unit = scale / (float) Math.sqrt(10f + 1f / 12f);
    long key = KeyedRandom.derive(KeyedRandom.derive(modelSeed, PART), KeyedRandom.keyOfName(table.getName()));
    for (int i = 0; i < ids.length; i++) {
      long row = KeyedRandom.derive(key, Integer.toUnsignedLong(ids[i]));
      for (int j = 0; j < dim; j++) {
        long drawn = KeyedRandom.bits(row, j);
        if (kind.equals("uniform")) {
          values[i * dim + j] = scale * (2 * KeyedRandom.uniform(drawn) - 1);
        } else {
          float fraction = (drawn & 0xffffff) * 0x1p-24f + 0x1p-25f;
          values[i * dim + j] = unit * (Long.bitCount(drawn >>> 24) - 20.5f + fraction);
        }
      }
    }
    return values;
  }
}

package dev.dslide.hashing;

/**
 * Signs of structured random projections: rounds of random signs and a Walsh-Hadamard transform.
 */
final class SimHash implements HashFamily {
  private static final int PART = 1;
  private static final int MIN_WIDTH = 16;
  private static final int ROUNDS = 3;

  private final int codes;
  private final int tables;
  private final int dim;
  private final int width;
  // For each block of width projections: the signs of each round, and of the constant 1 by which a
  // query is extended.
  private final float[][][] signs;

  SimHash(long seed, int codes, int tables, int dim) {
    this.codes = codes;
    this.tables = tables;
    this.dim = dim;
    width = Math.max(MIN_WIDTH, dim == 1 ? 1 : Integer.highestOneBit(dim - 1) << 1);
    signs = new float[(codes * tables + width - 1) / width][ROUNDS + 1][];
    long key = KeyedRandom.derive(seed, PART);
    for (int block = 0; block < signs.length; block++) {
      for (int part = 0; part <= ROUNDS; part++) {
        signs[block][part] = signsOf(KeyedRandom.derive(KeyedRandom.derive(key, block), part), width);
      }
    }
  }

  private static float[] signsOf(long key, int width) {
    float[] signs = new float[width];
    for (int i = 0; i < width; i++) {
      signs[i] = (KeyedRandom.bits(key, i / 64) >>> i % 64 & 1) == 1 ? -1 : 1;
    }
    return signs;
  }

  @Override
  public int numTables() {
    return tables;
  }

  @Override
  public int[] hash(float[] hidden) {
    int batch = hidden.length / dim;
    int[] fingerprints = new int[batch * tables];
    float[] x = new float[width];
    for (int sample = 0; sample < batch; sample++) {
      for (int block = 0; block < signs.length; block++) {
        System.arraycopy(hidden, sample * dim, x, 0, dim);
        java.util.Arrays.fill(x, dim, width, 0);
        project(x, signs[block]);
        int first = block * width;
        for (int i = 0; i < Math.min(width, codes * tables - first); i++) {
          if (x[i] >= 0) {
            int code = first + i;
            fingerprints[sample * tables + code / codes] |= 1 << code % codes;
          }
        }
      }
    }
    return fingerprints;
  }

  private void project(float[] x, float[][] of) {
    for (int round = 0; round < ROUNDS; round++) {
      for (int i = 0; i < width; i++) {
        x[i] *= of[round][i];
      }
      hadamard(x);
    }
    float scale = 1f / width;
    for (int i = 0; i < width; i++) {
      x[i] = x[i] * scale + of[ROUNDS][i];
    }
  }

  /** A Walsh-Hadamard transform in place; the length is a power of two. */
  private static void hadamard(float[] x) {
    for (int distance = 1; distance < x.length; distance *= 2) {
      for (int start = 0; start < x.length; start += 2 * distance) {
        for (int i = start; i < start + distance; i++) {
          float low = x[i];
          float high = x[i + distance];
          x[i] = low + high;
          x[i + distance] = low - high;
        }
      }
    }
  }
}

package dev.dslide.hashing;

/** Densified winner-take-all: which of a few permuted coordinates is the largest. */
final class Dwta implements HashFamily {
  private static final int PART = 2;
  private static final int MAX_PROBES = 64;
  // A query is extended by the constants 1 and 0.
  private static final int EXTRAS = 2;

  private final int codes;
  private final int tables;
  private final int dim;
  private final int width;
  private final int codeBits;
  // [codes * tables, width]: the coordinates that a bin compares.
  private final int[] coordinates;
  // [codes * tables, MAX_PROBES]: the bins whose winners an empty bin borrows, in that order; and its
  // code when all of these are empty.
  private final int[] probes;
  private final int[] fallback;

  Dwta(long seed, int codes, int tables, int dim, int binSize) {
    this.codes = codes;
    this.tables = tables;
    this.dim = dim;
    int extended = dim + EXTRAS;
    width = Math.min(binSize, extended);
    codeBits = 31 - Integer.numberOfLeadingZeros(binSize);
    int bins = codes * tables;
    int perPermutation = extended / width;
    long key = KeyedRandom.derive(seed, PART);
    coordinates = new int[bins * width];
    long permutations = KeyedRandom.derive(key, 0);
    for (int p = 0, done = 0; done < coordinates.length; p++) {
      int[] order = permutation(KeyedRandom.derive(permutations, p), extended);
      int size = Math.min(perPermutation * width, coordinates.length - done);
      System.arraycopy(order, 0, coordinates, done, size);
      done += size;
    }
    probes = new int[bins * MAX_PROBES];
    for (int i = 0; i < probes.length; i++) {
      probes[i] = KeyedRandom.below(KeyedRandom.bits(KeyedRandom.derive(key, 1), i), bins);
    }
    fallback = new int[bins];
    for (int bin = 0; bin < bins; bin++) {
      fallback[bin] = (int) KeyedRandom.bits(KeyedRandom.derive(key, 2), bin) & binSize - 1;
    }
  }

  /** Fisher and Yates', from the last place down. */
  private static int[] permutation(long key, int n) {
    int[] order = new int[n];
    for (int i = 0; i < n; i++) {
      order[i] = i;
    }
    for (int draw = 0; draw < n - 1; draw++) {
      int i = n - 1 - draw;
      int j = KeyedRandom.below(KeyedRandom.bits(key, draw), i + 1);
      int kept = order[i];
      order[i] = order[j];
      order[j] = kept;
    }
    return order;
  }

  @Override
  public int numTables() {
    return tables;
  }

  @Override
  public int[] hash(float[] hidden) {
    int batch = hidden.length / dim;
    int bins = codes * tables;
    int[] fingerprints = new int[batch * tables];
    int[] winners = new int[bins];
    float[] extended = new float[dim + EXTRAS];
    for (int sample = 0; sample < batch; sample++) {
      System.arraycopy(hidden, sample * dim, extended, 0, dim);
      extended[dim] = 1;
      for (int bin = 0; bin < bins; bin++) {
        winners[bin] = winner(extended, bin * width);
      }
      for (int bin = 0; bin < bins; bin++) {
        fingerprints[sample * tables + bin / codes] |= code(winners, bin) << bin % codes * codeBits;
      }
    }
    return fingerprints;
  }

  /**
   * The place of the largest number that is not 0, the first one of equal ones; -1 where all are 0:
   * zeros are missing entries.
   */
  private int winner(float[] extended, int first) {
    int best = -1;
    float largest = 0;
    for (int place = 0; place < width; place++) {
      float x = extended[coordinates[first + place]];
      if (x != 0 && (best < 0 || x > largest)) {
        best = place;
        largest = x;
      }
    }
    return best;
  }

  private int code(int[] winners, int bin) {
    if (winners[bin] >= 0) {
      return winners[bin];
    }
    for (int i = 0; i < MAX_PROBES; i++) {
      int borrowed = winners[probes[bin * MAX_PROBES + i]];
      if (borrowed >= 0) {
        return borrowed;
      }
    }
    return fallback[bin];
  }
}

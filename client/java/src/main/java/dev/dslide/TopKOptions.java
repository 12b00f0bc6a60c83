package dev.dslide;

/**
 * Which rows of a head are scored, and how many of them are wanted.
 *
 * @param k rows of each query, [1, 1024]
 * @param hashed among those that hashing finds; false: every row. A head without hash tables is scored
 *     exactly
 * @param budget beside {@code hashed}, rows to score for each query, over all shards, at most 2^31: the
 *     more, the more of the exact answer is found. 0: as many as in training
 */
public record TopKOptions(int k, boolean hashed, long budget) {
  private static final int MAX_K = 1024;
  private static final long MAX_BUDGET = 1L << 31;

  /**
   * Checks them.
   *
   * @throws dev.dslide.errors.InvalidArgumentException one of them is not in its range
   */
  public TopKOptions {
    if (k < 1 || k > MAX_K) {
      throw Failures.invalid("k is %d, must be in [1, %d]", k, MAX_K);
    }
    if (budget < 0 || budget > MAX_BUDGET || budget > 0 && !hashed) {
      throw Failures.invalid("budget is %d, must be in [0, %d], and 0 unless hashed", budget, MAX_BUDGET);
    }
  }

  /** The best of all rows. */
  public static TopKOptions exact(int k) {
    return new TopKOptions(k, false, 0);
  }

  /** The best of those that training would select. */
  public static TopKOptions hashed(int k) {
    return new TopKOptions(k, true, 0);
  }

  /** The best of so many rows, most of them the nearest of the longest ones. */
  public static TopKOptions hashed(int k, long budget) {
    return new TopKOptions(k, true, budget);
  }
}

package dev.dslide.data;

import dev.dslide.hashing.KeyedRandom;

/**
 * Says which points are held out for validation, by the seed alone. Equal in every client. Immutable.
 */
public final class Split {
  private static final long PART = 0x73706C6974L;

  private final long training;
  private final long validation;
  private final Permutation permutation;

  /**
   * Holds out a part of the points.
   *
   * @param points at least 1
   * @param seed of the model
   * @param fraction in [0, 0.5]
   * @param maxValidation at most so many; 0: no maximum
   * @throws IllegalArgumentException an argument is not in its range
   */
  public Split(long points, long seed, double fraction, long maxValidation) {
    if (points < 1 || maxValidation < 0 || !(fraction >= 0 && fraction <= 0.5)) {
      throw new IllegalArgumentException(("%d points, of which a fraction of %s and at most %d are held out: "
          + "there must be 1 point, and a fraction in [0, 0.5]").formatted(points, fraction, maxValidation));
    }
    long held = (long) Math.floor(points * fraction);
    validation = maxValidation > 0 ? Math.min(held, maxValidation) : held;
    training = points - validation;
    permutation = Permutation.of(points, KeyedRandom.derive(seed, PART));
  }

  /** How many points are trained. */
  public long training() {
    return training;
  }

  /** How many are held out. */
  public long validation() {
    return validation;
  }

  /** The index in the data of a training point in [0, training). */
  public long trainingPoint(long number) {
    return validation == 0 ? number : permutation.at(number + validation);
  }

  /** The index in the data of a validation point in [0, validation). */
  public long validationPoint(long number) {
    return permutation.at(number);
  }
}

package dev.dslide.data;

import dev.dslide.hashing.KeyedRandom;

/**
 * The order in which one epoch visits the points; never that of the file. Equal in every client, so
 * that trainers can share an epoch. {@code docs/understand/wire.md} states it. Immutable.
 */
public final class EpochOrder {
  private static final long PART = 0x65706F6368L;

  private final Permutation permutation;

  /**
   * The order of an epoch over some points.
   *
   * @param points at least 1
   * @param seed of the job
   * @param epoch from 0
   */
  public EpochOrder(long points, long seed, long epoch) {
    long key = KeyedRandom.derive(KeyedRandom.derive(seed, PART), epoch);
    Permutation found = Permutation.of(points, key);
    for (long attempt = 1; points > 1 && found.isIdentity(); attempt++) {
      found = Permutation.of(points, KeyedRandom.derive(key, attempt));
    }
    permutation = found;
  }

  /** The point at a position in [0, points). */
  public long pointAt(long position) {
    return permutation.at(position);
  }
}

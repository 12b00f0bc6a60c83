package dev.dslide.data;

import dev.dslide.hashing.KeyedRandom;

/**
 * A keyed bijection of [0, size): a Feistel network, walked until it falls into the range (Black and
 * Rogaway 2002, "Ciphers with arbitrary finite domains").
 */
record Permutation(long size, long key, int lowBits, long lowMask, long highMask) {
  private static final int ROUNDS = 8;

  static Permutation of(long size, long key) {
    int width = 64 - Long.numberOfLeadingZeros(size - 1);
    int low = (width + 1) / 2;
    return new Permutation(size, key, low, (1L << low) - 1, (1L << width - low) - 1);
  }

  long at(long index) {
    long value = index;
    do {
      long low = value & lowMask;
      long high = value >>> lowBits;
      for (int round = 0; round < ROUNDS; round += 2) {
        high ^= KeyedRandom.bits(key + round, low) & highMask;
        low ^= KeyedRandom.bits(key + round + 1, high) & lowMask;
      }
      value = high << lowBits | low;
    } while (value >= size);
    return value;
  }

  boolean isIdentity() {
    for (long i = 0; i < size; i++) {
      if (at(i) != i) {
        return false;
      }
    }
    return true;
  }
}

package dev.dslide.hashing;

import java.nio.charset.StandardCharsets;

/**
 * Counter-based random numbers: a value is a pure function of a key and a counter. They are equal, bit
 * for bit, to those of the shards and of every other client. {@code docs/understand/hashing.md},
 * section 2, states them. All numbers are unsigned and wrap around.
 */
public final class KeyedRandom {
  private static final long GOLDEN = 0x9E3779B97F4A7C15L;

  private KeyedRandom() {}

  private static long mix(long x) {
    x = (x ^ x >>> 30) * 0xBF58476D1CE4E5B9L;
    x = (x ^ x >>> 27) * 0x94D049BB133111EBL;
    return x ^ x >>> 31;
  }

  /** 64 random bits of a key and a counter. */
  public static long bits(long key, long counter) {
    return mix(mix(key + GOLDEN) ^ (counter * GOLDEN + key));
  }

  /** The key of a part of what the key is for. */
  public static long derive(long key, long part) {
    return bits(key ^ 0x6A09E667F3BCC909L, part);
  }

  /** The key of a table's name. */
  public static long keyOfName(String name) {
    long key = 0;
    for (byte letter : name.getBytes(StandardCharsets.UTF_8)) {
      key = derive(key, letter & 0xff);
    }
    return key;
  }

  /** A number in [0, 1) with 24 bits of resolution. */
  public static float uniform(long bits) {
    return (bits >>> 40) * 0x1p-24f;
  }

  /** A number in [0, bound), bound above 0: the upper half of the product. */
  public static int below(long bits, int bound) {
    return (int) (Math.multiplyHigh(bits, bound) + (bits >> 63 & bound));
  }
}

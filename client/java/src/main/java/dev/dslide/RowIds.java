package dev.dslide;

import java.util.Arrays;

/** Ids of rows as callers give them. */
final class RowIds {
  private RowIds() {}

  static void check(int[] ids, long rows, String what) {
    for (int i = 0; i < ids.length; i++) {
      if (Integer.toUnsignedLong(ids[i]) >= rows) {
        throw Failures.invalid("%s: id %s at place %d is outside [0, %d), its rows", what,
            Integer.toUnsignedString(ids[i]), i, rows);
      }
    }
  }

  /** Whether ids ascend strictly, from first to end. */
  static boolean ascend(int[] ids, int first, int end) {
    for (int i = first + 1; i < end; i++) {
      if (ids[i] <= ids[i - 1]) {
        return false;
      }
    }
    return true;
  }

  /**
   * Ids in strictly ascending order, and where each of the given ones is in it.
   *
   * @param ids ascending
   * @param places one for each given id
   */
  record Distinct(int[] ids, int[] places) {
    static Distinct of(int[] given) {
      int[] sorted = given.clone();
      Arrays.sort(sorted);
      int size = 0;
      for (int i = 0; i < sorted.length; i++) {
        if (i == 0 || sorted[i] != sorted[i - 1]) {
          sorted[size++] = sorted[i];
        }
      }
      int[] ids = Arrays.copyOf(sorted, size);
      int[] places = new int[given.length];
      for (int i = 0; i < given.length; i++) {
        places[i] = Arrays.binarySearch(ids, given[i]);
      }
      return new Distinct(ids, places);
    }
  }
}

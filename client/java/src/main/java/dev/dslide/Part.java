package dev.dslide;

import java.util.Arrays;

/**
 * What one shard owns of rows.
 *
 * @param ids ascending where those that were dealt do
 * @param places their places among all rows; null: side by side, from {@code first} on
 * @param first as above
 */
record Part(int[] ids, int[] places, int first) {
  /** Slices ids by the owners of their slots, by ordinal. Orders are kept. */
  static Part[] deal(int[] ids, short[] owners, int shards) {
    Part[] parts = new Part[shards];
    if (shards == 1) {
      parts[0] = new Part(ids, null, 0);
      return parts;
    }
    int[] counts = new int[shards];
    for (int id : ids) {
      counts[owners[id % owners.length]]++;
    }
    for (int shard = 0; shard < shards; shard++) {
      parts[shard] = new Part(new int[counts[shard]], new int[counts[shard]], 0);
    }
    Arrays.fill(counts, 0);
    for (int place = 0; place < ids.length; place++) {
      int shard = owners[ids[place] % owners.length];
      int at = counts[shard]++;
      parts[shard].ids[at] = ids[place];
      parts[shard].places[at] = place;
    }
    return parts;
  }

  int size() {
    return ids.length;
  }

  Part cut(int from, int end) {
    if (from == 0 && end == ids.length) {
      return this;
    }
    return new Part(Arrays.copyOfRange(ids, from, end), places == null ? null : Arrays.copyOfRange(places, from, end),
        first + from);
  }

  int place(int i) {
    return places == null ? first + i : places[i];
  }
}

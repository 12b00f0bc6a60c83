package dev.dslide;

import dev.dslide.hashing.HashFamily;
import dev.dslide.v1.HashSpec;
import dev.dslide.v1.TableSpec;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Keeps the hash families of heads, which take a while to make. Threads may share it. */
final class HashFamilies {
  private record Key(HashSpec spec, long dim, long rows) {}

  private final Map<Key, HashFamily> made = new ConcurrentHashMap<>();

  /** How a head is hashed; null: every row is active. */
  HashFamily of(TableSpec table) {
    if (!table.getRole().equals("head") || table.getHead().getMaxActive() == 0) {
      return null;
    }
    // What is chosen by the number of rows is chosen by that for which the table was made.
    long rows = table.getBaseRows() == 0 ? table.getRows() : table.getBaseRows();
    return made.computeIfAbsent(new Key(table.getHead().getHash(), table.getDim(), rows), key -> {
      try {
        return HashFamily.of(key.spec(), (int) key.dim(), key.rows());
      } catch (IllegalArgumentException e) {
        throw Failures.invalid("table \"%s\": %s", table.getName(), e.getMessage());
      }
    });
  }
}

package dev.dslide.hashing;

import dev.dslide.v1.HashSpec;

/**
 * Computes fingerprints of queries: the addresses in a head's hash tables at which similar rows are
 * found. {@code docs/understand/hashing.md} states the algorithms. Only additions and comparisons in a
 * stated order are used, so fingerprints are equal, bit for bit, to those of every other client and of
 * the shards.
 *
 * <p>Immutable: threads may share it.
 */
public interface HashFamily {
  /** How many fingerprints a vector has. */
  int numTables();

  /** The fingerprints, [batch, numTables], of hidden vectors, [batch, dim]. */
  int[] hash(float[] hidden);

  /**
   * The family that a head's settings name, for vectors of {@code dim} floats and a table of so many
   * rows. Settings of 0 are chosen as the shards choose them.
   *
   * @throws IllegalArgumentException the settings name no family, or sizes below 1
   */
  static HashFamily of(HashSpec spec, int dim, long rows) {
    HashSpec resolved = resolve(spec, rows);
    int codes = (int) resolved.getCodesPerTable();
    int tables = (int) resolved.getNumTables();
    if (dim < 1 || codes < 1 || tables < 1) {
      throw new IllegalArgumentException("dim %d, codes_per_table %d and num_tables %d must be at least 1"
          .formatted(dim, codes, tables));
    }
    return switch (resolved.getFamily()) {
      case "simhash" -> new SimHash(resolved.getSeed(), codes, tables, dim);
      case "dwta" -> new Dwta(resolved.getSeed(), codes, tables, dim, (int) resolved.getBinSize());
      default -> throw new IllegalArgumentException(
          "hash family \"" + resolved.getFamily() + "\" is not known: it must be simhash or dwta");
    };
  }

  /** The settings with those chosen that are absent or 0: family, bin size, seed, codes and tables. */
  static HashSpec resolve(HashSpec spec, long rows) {
    String family = spec.getFamily().isEmpty() ? "simhash" : spec.getFamily();
    long binSize = spec.getBinSize() == 0 ? 8 : spec.getBinSize();
    long codes = spec.getCodesPerTable();
    if (codes == 0) {
      long codeBits = family.equals("dwta") ? 63 - Long.numberOfLeadingZeros(binSize) : 1;
      double bits = Math.log(Math.max(rows, 1) / 320.0) / Math.log(2);
      // Halves away from zero, as C++ rounds.
      long wanted = (long) (Math.signum(bits) * Math.floor(Math.abs(bits / codeBits) + 0.5));
      codes = Math.min(Math.max(wanted, Math.max(1, 4 / codeBits)), Math.max(1, 16 / codeBits));
    }
    return HashSpec.newBuilder().setFamily(family).setBinSize(binSize).setCodesPerTable(codes)
        .setSeed(spec.hasSeed() ? spec.getSeed() : 24301)
        .setNumTables(spec.getNumTables() == 0 ? 12 : spec.getNumTables()).build();
  }
}

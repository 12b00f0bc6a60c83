package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.v1.TableSpec;
import java.io.ByteArrayOutputStream;
import java.util.Arrays;

/**
 * The features, or the labels, of samples: ids that ascend strictly within a sample, and values of
 * features. Not for several threads at a time while samples are added.
 */
public final class Sparse {
  private static final int MAX_SAMPLES = 1 << 16;

  private int size; // samples
  private int count; // ids
  private int[] offsets = new int[16]; // sample i has ids[offsets[i] .. offsets[i + 1])
  private int[] ids = new int[64];
  private float[] values = new float[64];

  /** No samples. */
  public Sparse() {}

  /** Adds a sample; all values are 1. Returns this. */
  public Sparse add(int... sampleIds) {
    return add(sampleIds, null);
  }

  /**
   * Adds a sample with a value for each id. Returns this.
   *
   * @throws dev.dslide.errors.InvalidArgumentException there are fewer values than ids, or more
   */
  public Sparse add(int[] sampleIds, float[] sampleValues) {
    if (sampleValues != null && sampleValues.length != sampleIds.length) {
      throw Failures.invalid("%d values are given for %d ids", sampleValues.length, sampleIds.length);
    }
    for (int i = 0; i < sampleIds.length; i++) {
      addId(sampleIds[i], sampleValues == null ? 1 : sampleValues[i]);
    }
    endSample();
    return this;
  }

  private void addId(int id, float value) {
    if (count == ids.length) {
      ids = Arrays.copyOf(ids, 2 * count);
      values = Arrays.copyOf(values, 2 * count);
    }
    ids[count] = id;
    values[count++] = value;
  }

  private void endSample() {
    if (++size == offsets.length) {
      offsets = Arrays.copyOf(offsets, 2 * size);
    }
    offsets[size] = count;
  }

  /** How many samples there are. */
  public int size() {
    return size;
  }

  int offset(int sample) {
    return offsets[sample];
  }

  /** How many ids there are in all. */
  int count() {
    return count;
  }

  float value(int i) {
    return values[i];
  }

  /** Makes features as a model's transform "l2" has them: each sample of length 1. Returns this. */
  public Sparse scale() {
    for (int sample = 0; sample < size; sample++) {
      double squares = 0;
      for (int i = offsets[sample]; i < offsets[sample + 1]; i++) {
        squares += (double) values[i] * values[i];
      }
      double factor = squares == 0 ? 1 : 1 / Math.sqrt(squares);
      for (int i = offsets[sample]; i < offsets[sample + 1]; i++) {
        values[i] = (float) (values[i] * factor);
      }
    }
    return this;
  }

  /** Whether an id of a sample, at a place in it, stays. */
  interface Filter {
    boolean keeps(int sample, int place);
  }

  /** Those ids that stay, with their values times a factor. */
  Sparse filtered(Filter filter, float factor) {
    var kept = new Sparse();
    for (int sample = 0; sample < size; sample++) {
      for (int i = offsets[sample]; i < offsets[sample + 1]; i++) {
        if (filter.keeps(sample, i - offsets[sample])) {
          kept.addId(ids[i], values[i] * factor);
        }
      }
      kept.endSample();
    }
    return kept;
  }

  void check(TableSpec table, long rows, String kind) {
    String what = kind + " of table \"" + table.getName() + "\"";
    if (size < 1 || size > MAX_SAMPLES) {
      throw Failures.invalid("%s: %d samples, must be 1 to 65,536", what, size);
    }
    RowIds.check(Arrays.copyOf(ids, count), rows, what);
    for (int i = 0; i < size; i++) {
      if (!RowIds.ascend(ids, offsets[i], offsets[i + 1])) {
        throw Failures.invalid("%s: the ids of sample %d do not ascend strictly: sort them, and merge equal ones",
            what, i);
      }
    }
    Numbers.checkFinite(Arrays.copyOf(values, count), what);
  }

  /**
   * Each shard's part of every sample, by ordinal.
   *
   * @param bias a feature that every sample has with the value 1: those from its number on have the row
   *     after their own number; or negative
   */
  Sparse[] slice(short[] owners, int shards, long bias) {
    Sparse[] parts = new Sparse[shards];
    for (int shard = 0; shard < shards; shard++) {
      parts[shard] = new Sparse();
    }
    for (int sample = 0; sample < size; sample++) {
      boolean added = bias < 0;
      for (int i = offsets[sample]; i < offsets[sample + 1]; i++) {
        boolean behind = bias >= 0 && ids[i] >= bias;
        if (behind && !added) {
          parts[owners[(int) (bias % owners.length)]].addId((int) bias, 1);
          added = true;
        }
        int row = behind ? ids[i] + 1 : ids[i];
        parts[owners[row % owners.length]].addId(row, values[i]);
      }
      if (!added) {
        parts[owners[(int) (bias % owners.length)]].addId((int) bias, 1);
      }
      for (Sparse part : parts) {
        part.endSample();
      }
    }
    return parts;
  }

  ByteString offsetBytes() {
    return Numbers.ids(Arrays.copyOf(offsets, size + 1));
  }

  ByteString idBytes() {
    return Numbers.ids(Arrays.copyOf(ids, count));
  }

  ByteString valueBytes() {
    return Numbers.floats(Arrays.copyOf(values, count));
  }

  ByteString packed() {
    var packed = new ByteArrayOutputStream();
    for (int i = 0; i < size; i++) {
      Numbers.appendPackedIds(packed, ids, offsets[i], offsets[i + 1]);
    }
    return ByteString.copyFrom(packed.toByteArray());
  }
}

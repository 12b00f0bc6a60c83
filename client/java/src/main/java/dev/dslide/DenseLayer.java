package dev.dslide;

import dev.dslide.v1.Matrix;
import dev.dslide.v1.RowBlock;
import dev.dslide.v1.TableSpec;
import java.util.ArrayList;
import java.util.List;

/**
 * A small layer between the embedding and the head, as the shards have answered its rows. It computes W
 * x + b; what is made of that is the program's business. Immutable, but for the arrays.
 */
public final class DenseLayer {
  private final TableSpec table;
  private final int in;
  private final int out;
  private final float[] weights; // [out, in]
  private final float[] biases; // [out]
  private final List<int[]> rows = new ArrayList<>(); // by shard: who holds which

  /**
   * What {@link #backward} finds.
   *
   * @param weights [out, in], of all rows, summed over the samples
   * @param biases [out]
   * @param below [B, in], of the inputs
   */
  public record Gradients(float[] weights, float[] biases, float[] below) {}

  /** Puts the shards' parts of a layer together. */
  DenseLayer(TableSpec table, Shards shards, RowBlock[] parts) {
    this.table = table;
    in = (int) table.getDim();
    out = (int) table.getRows();
    weights = new float[out * in];
    biases = new float[out];
    boolean[] seen = new boolean[out];
    int found = 0;
    for (Shard shard : shards) {
      RowBlock part = parts[shard.ordinal()];
      int[] ids = Numbers.toIds(part.getRowIds());
      float[] mine = ids.length == 0 ? new float[0] : Matrices.numbers(shard.peer(), part.getValues(), ids.length, in);
      float[] theirs = Numbers.toFloats(part.getBiases());
      if (theirs.length != ids.length) {
        throw Failures.internal("%s answered %d biases of %d rows of table \"%s\"", shard.peer().name(), theirs.length,
            ids.length, table.getName());
      }
      for (int i = 0; i < ids.length; i++) {
        if (ids[i] < 0 || ids[i] >= out || seen[ids[i]]) {
          throw Failures.internal("%s answered row %d of table \"%s\", which has %d, each once", shard.peer().name(),
              ids[i], table.getName(), out);
        }
        seen[ids[i]] = true;
        System.arraycopy(mine, i * in, weights, ids[i] * in, in);
        biases[ids[i]] = theirs[i];
      }
      rows.add(ids);
      found += ids.length;
    }
    if (found != out) {
      throw Failures.internal("the shards answered %d of the %d rows of table \"%s\"", found, out, table.getName());
    }
  }

  TableSpec table() {
    return table;
  }

  /** W x + b, [B, out], of inputs [B, in]. */
  public float[] forward(float[] x) {
    int samples = x.length / in;
    float[] y = new float[samples * out];
    for (int sample = 0; sample < samples; sample++) {
      for (int unit = 0; unit < out; unit++) {
        float sum = biases[unit];
        for (int i = 0; i < in; i++) {
          sum += weights[unit * in + i] * x[sample * in + i];
        }
        y[sample * out + unit] = sum;
      }
    }
    return y;
  }

  /**
   * The gradients of rows and inputs.
   *
   * @param x [B, in]: the inputs
   * @param dy [B, out]: the gradients of what {@link #forward} returned
   */
  public Gradients backward(float[] x, float[] dy) {
    var all = new Gradients(new float[out * in], new float[out], new float[x.length]);
    for (int sample = 0; sample < dy.length / out; sample++) {
      for (int unit = 0; unit < out; unit++) {
        float g = dy[sample * out + unit];
        for (int i = 0; g != 0 && i < in; i++) {
          all.weights[unit * in + i] += g * x[sample * in + i];
          all.below[sample * in + i] += g * weights[unit * in + i];
        }
        all.biases[unit] += g;
      }
    }
    return all;
  }

  /** The gradients of the rows that a shard holds; null: it holds none. */
  RowBlock part(int ordinal, Gradients all) {
    int[] mine = rows.get(ordinal);
    if (mine.length == 0) {
      return null;
    }
    float[] ofWeights = new float[mine.length * in];
    float[] ofBiases = new float[mine.length];
    for (int i = 0; i < mine.length; i++) {
      System.arraycopy(all.weights, mine[i] * in, ofWeights, i * in, in);
      ofBiases[i] = all.biases[mine[i]];
    }
    Matrix values = Matrices.of(ofWeights, mine.length, false);
    return RowBlock.newBuilder().setRowIds(Numbers.ids(mine)).setValues(values).setBiases(Numbers.floats(ofBiases))
        .build();
  }
}

package dev.dslide;

import dev.dslide.v1.TableSpec;

/**
 * One scatter: distinct ids, ascending, and their numbers.
 *
 * @param values [n, dim]
 * @param biases [n]; null in tables whose rows have none
 * @param rate 0: the model's
 */
record RowChange(TableSpec table, ScatterMode mode, int[] ids, float[] values, float[] biases, double rate) {
  /** Checks what a caller gives, and puts it in order. */
  static RowChange of(TableSpec table, ScatterMode mode, int[] ids, float[] values, ScatterOptions options) {
    String what = "scatter to table " + table.getName();
    int dim = (int) table.getDim();
    boolean hasBias = !table.getRole().equals("embedding");
    float[] biases = options.biases();
    double rate = options.learningRate();
    RowIds.check(ids, table.getRows(), what);
    if (values.length != (long) ids.length * dim) {
      throw Failures.invalid("%s: %d values are given for %d rows of %d", what, values.length, ids.length, dim);
    }
    if (biases != null && !hasBias) {
      throw Failures.invalid("%s: its rows have no biases", what);
    }
    if (biases != null && biases.length != ids.length) {
      throw Failures.invalid("%s: %d biases are given for %d rows", what, biases.length, ids.length);
    }
    if (!(rate >= 0) || Double.isInfinite(rate) || rate != 0 && mode != ScatterMode.GRADIENT) {
      throw Failures.invalid("%s: learningRate %s must be finite, above 0 and of mode GRADIENT", what, rate);
    }
    Numbers.checkFinite(values, what + ": values");
    if (biases != null) {
      Numbers.checkFinite(biases, what + ": biases");
    } else if (hasBias) {
      biases = new float[ids.length];
    }
    var change = new RowChange(table, mode, ids, values, biases, rate);
    return RowIds.ascend(ids, 0, ids.length) ? change : change.sorted(what);
  }

  /** In order, equal rows added up in the order in which they are given. */
  private RowChange sorted(String what) {
    int dim = (int) table.getDim();
    var distinct = RowIds.Distinct.of(ids);
    int n = distinct.ids().length;
    boolean[] seen = new boolean[n];
    float[] sums = new float[n * dim];
    float[] biasSums = biases == null ? null : new float[n];
    for (int i = 0; i < ids.length; i++) {
      int place = distinct.places()[i];
      if (mode == ScatterMode.ASSIGN && seen[place]) {
        throw Failures.invalid("%s: row %d is assigned twice in one request: keep one of its values", what, ids[i]);
      }
      seen[place] = true;
      for (int j = 0; j < dim; j++) {
        sums[place * dim + j] += values[i * dim + j];
      }
      if (biases != null) {
        biasSums[place] += biases[i];
      }
    }
    return new RowChange(table, mode, distinct.ids(), sums, biasSums, rate);
  }
}

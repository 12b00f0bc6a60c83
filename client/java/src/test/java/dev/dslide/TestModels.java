package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.dslide.v1.DescribeModelResponse;
import java.util.Random;
import java.util.stream.IntStream;

/** Models and numbers of the tests. */
final class TestModels {
  private TestModels() {}

  /** Tables input (601 x 16) and labels (5000 x 16). */
  static Model wide(Cluster cluster, String name) {
    return cluster.createModel("""
        {"name": "%s", "tables": [
          {"name": "input", "role": "embedding", "rows": 601, "dim": 16, "bias_row": true},
          {"name": "labels", "role": "head", "rows": 5000, "dim": 16,
           "optimizer": {"kind": "sgd", "learning_rate": 0.5},
           "head": {"hash": {"codes_per_table": 5, "num_tables": 10}}}]}""".formatted(name));
  }

  /** One table of zeros, "cells". */
  static Model cells(Cluster cluster, int rows, int dim) {
    return cluster.createModel("""
        {"name": "cells", "tables": [{"name": "cells", "rows": %d, "dim": %d, "init": {"kind": "zero"}}]}"""
        .formatted(rows, dim));
  }

  static float[] random(Random draw, int n) {
    float[] x = new float[n];
    for (int i = 0; i < n; i++) {
      x[i] = draw.nextFloat() - 0.5f;
    }
    return x;
  }

  static int[] range(int n) {
    return IntStream.range(0, n).toArray();
  }

  /** Every table on every shard has had so many updates. */
  static void assertUpdates(Model model, long updates) {
    for (DescribeModelResponse part : model.describe(false)) {
      for (var table : part.getTablesList()) {
        assertEquals(updates, table.getAppliedSteps(), "updates of table " + table.getName());
      }
    }
  }
}

package dev.dslide;

import dev.dslide.v1.TopKResponse;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The best rows of each query over all shards, best first, ties by smaller id.
 *
 * @param ids [queries, k]; {@link #NO_ROW} where fewer than k rows were scored
 * @param logits [queries, k]; -Infinity where fewer than k rows were scored
 * @param scoredRows [queries]: how many rows were scored for each
 */
public record TopK(int[] ids, float[] logits, long[] scoredRows) {
  /** The id where there is no row. */
  public static final int NO_ROW = -1;

  private record Scored(int id, float logit) {}

  private static final Comparator<Scored> BEST_FIRST = Comparator.<Scored>comparingDouble(Scored::logit).reversed()
      .thenComparing(Scored::id, Integer::compareUnsigned);

  static TopK of(TopKResponse[] answers, int queries, int k) {
    var best = new TopK(new int[queries * k], new float[queries * k], new long[queries]);
    List<int[]> ids = new ArrayList<>();
    List<float[]> logits = new ArrayList<>();
    for (TopKResponse answer : answers) {
      ids.add(Numbers.toIds(answer.getRowIds()));
      logits.add(Numbers.toFloats(answer.getLogits()));
      int[] scored = Numbers.toIds(answer.getScoredRowsByQuery());
      for (int query = 0; query < Math.min(queries, scored.length); query++) {
        best.scoredRows[query] += Integer.toUnsignedLong(scored[query]);
      }
    }
    var found = new ArrayList<Scored>(answers.length * k);
    for (int query = 0; query < queries; query++) {
      found.clear();
      for (int shard = 0; shard < answers.length; shard++) {
        for (int i = query * k; i < (query + 1) * k; i++) {
          found.add(new Scored(ids.get(shard)[i], logits.get(shard)[i]));
        }
      }
      found.sort(BEST_FIRST);
      for (int i = 0; i < k; i++) {
        best.ids[query * k + i] = found.get(i).id();
        best.logits[query * k + i] = found.get(i).logit();
      }
    }
    return best;
  }
}

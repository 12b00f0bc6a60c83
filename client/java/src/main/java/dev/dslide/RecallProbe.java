package dev.dslide;

import dev.dslide.v1.HeadForwardResult;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The exact best rows for one sample of a step, at most 10, best first, and whether hashing had found
 * them: the recall of its selection.
 *
 * @param sample position in the batch
 * @param ids of the rows
 * @param logits of the rows
 * @param found whether the row was a candidate
 */
public record RecallProbe(int sample, int[] ids, float[] logits, boolean[] found) {
  private static final int ROWS = 10;

  private record Row(int id, float logit, boolean found) {}

  private static final Comparator<Row> BEST_FIRST =
      Comparator.<Row>comparingDouble(Row::logit).reversed().thenComparing(Row::id);

  /** Of all shards' best rows the best. */
  static List<RecallProbe> of(HeadForwardResult[] answers, int[] samples) {
    var probes = new ArrayList<RecallProbe>();
    for (int sample : samples) {
      var rows = new ArrayList<Row>();
      for (HeadForwardResult answer : answers) {
        for (var probe : answer.getRecallProbesList()) {
          int[] ids = Numbers.toIds(probe.getRowIds());
          float[] logits = Numbers.toFloats(probe.getLogits());
          for (int i = 0; probe.getSample() == sample && i < ids.length; i++) {
            rows.add(new Row(ids[i], logits[i], probe.getFound().byteAt(i) != 0));
          }
        }
      }
      rows.sort(BEST_FIRST);
      int n = Math.min(ROWS, rows.size());
      var best = new RecallProbe(sample, new int[n], new float[n], new boolean[n]);
      for (int i = 0; i < n; i++) {
        best.ids[i] = rows.get(i).id();
        best.logits[i] = rows.get(i).logit();
        best.found[i] = rows.get(i).found();
      }
      probes.add(best);
    }
    return List.copyOf(probes);
  }
}

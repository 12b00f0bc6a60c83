// Adds 1 to four rows for each line of stdin, and says of every update what became of it.
//
//   java -cp "target/dslide-0.2.0.jar:target/lib/*" examples/Increments.java \
//       COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]
//
// Update n, from 0, is of the rows FIRST_ROW + 4 n and the three after it. stdout: a line of JSON for
// each update, {"update", "outcome", "reason"}.
//
// A line "step 2" asks for two operations of a step stream instead, updates n and n + 1: each the sum of
// row n of another model, which the answer has as "value".

import dev.dslide.Cluster;
import dev.dslide.Model;
import dev.dslide.Options;
import dev.dslide.ScatterMode;
import dev.dslide.Sparse;
import dev.dslide.Steps;
import dev.dslide.Tls;
import dev.dslide.errors.DslideException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;

/** The program. */
public final class Increments {
  private static final String CELLS = "cells"; // the model, and its only table
  private static final int ROWS_OF_UPDATE = 4;

  private Increments() {}

  /** Runs it. */
  public static void main(String[] arguments) throws IOException {
    if (arguments.length != 3 && arguments.length != 6) {
      System.err.println("usage: Increments COORDINATOR FIRST_ROW TIMEOUT_SECONDS [CA CERT KEY]");
      System.exit(2);
    }
    var limit = Duration.ofMillis((long) (1000 * Double.parseDouble(arguments[2])));
    Options options = Options.DEFAULT.withTimeout(limit).withPatience(limit);
    if (arguments.length == 6) {
      options = options.withTls(new Tls(Path.of(arguments[3]), Path.of(arguments[4]), Path.of(arguments[5])));
    }
    try (var cluster = Cluster.connect(arguments[0], options)) {
      Model model = cluster.createModel("""
          {"name": "cells", "tables": [{"name": "cells", "rows": 200000, "dim": 1, "init": {"kind": "zero"},
            "optimizer": {"kind": "sgd"}}]}""");
      var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      Steps steps = null;
      int update = 0;
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        if (!line.startsWith("step ")) {
          System.out.println(add(model, Integer.parseInt(arguments[1]), update++));
          continue;
        }
        if (steps == null) {
          steps = openSteps(cluster);
        }
        for (int end = update + Integer.parseInt(line.substring(5)); update < end; update++) {
          System.out.println(operation(steps, update));
        }
      }
      if (steps != null) {
        steps.close();
      }
    } catch (DslideException e) {
      System.err.println("error: " + e.getMessage());
      System.exit(1);
    }
  }

  private static Steps openSteps(Cluster cluster) {
    return cluster.createModel("""
        {"name": "steps", "tables": [
          {"name": "cells", "role": "embedding", "rows": 200000, "dim": 1, "init": {"kind": "zero"},
           "optimizer": {"kind": "sgd"}},
          {"name": "head", "role": "head", "rows": 8, "dim": 1, "init": {"kind": "zero"},
           "optimizer": {"kind": "sgd"}, "head": {"max_active": 0}}]}""").openSteps("steps");
  }

  /** A step of its own: the sum of one row. */
  private static String operation(Steps steps, int row) {
    var features = new Sparse();
    features.add(new int[] {row}, new float[] {1});
    float value = 0;
    String outcome = "applied";
    String reason = "";
    steps.begin();
    try {
      value = steps.embedForward(features)[0];
    } catch (DslideException e) {
      outcome = e.maybeApplied() ? "unknown" : "refused";
      reason = e.reason();
    }
    return "{\"update\":%d,\"outcome\":\"%s\",\"reason\":\"%s\",\"value\":%s}".formatted(row, outcome, reason,
        value);
  }

  private static String add(Model model, int firstRow, int update) {
    int[] rows = new int[ROWS_OF_UPDATE];
    float[] ones = new float[ROWS_OF_UPDATE];
    for (int i = 0; i < ROWS_OF_UPDATE; i++) {
      rows[i] = firstRow + ROWS_OF_UPDATE * update + i;
      ones[i] = 1;
    }
    String outcome = "applied";
    String reason = "";
    try {
      model.scatter(CELLS, rows, ones, ScatterMode.ADD);
    } catch (DslideException e) {
      outcome = e.maybeApplied() ? "unknown" : "refused";
      reason = e.reason();
    }
    return "{\"update\":%d,\"outcome\":\"%s\",\"reason\":\"%s\"}".formatted(update, outcome, reason);
  }
}

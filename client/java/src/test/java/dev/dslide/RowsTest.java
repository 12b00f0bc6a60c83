package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.dslide.errors.InvalidArgumentException;
import dev.dslide.errors.PermissionDeniedException;
import dev.dslide.errors.UnavailableException;
import dev.dslide.v1.TableSpec;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** Rows of a cluster, over 1 shard (side by side) and 3 (in between), and over TLS. */
class RowsTest {
  private static final long SEED = 20261126;

  @Test
  void overOneShard() {
    try (var servers = new TestCluster(1, false, false)) {
      rows(TestModels.wide(servers.connect("trainer"), "rows"));
    }
  }

  @Test
  void overThreeShardsWithCertificates() {
    try (var servers = new TestCluster(3, true, false)) {
      Cluster cluster = servers.connect("trainer");
      assertEquals(3, cluster.numShards());
      rows(TestModels.wide(cluster, "rows"));
      roles(servers);
      foreignCertificates(servers);
    }
  }

  private static void rows(Model model) {
    firstRows(model);
    topK(model); // before rows change: hash tables are built anew only now and then
    hashedTopK(model);
    for (TableSpec table : model.spec().getTablesList()) {
      scatter(model, table);
    }
    gradients(model);
    refusals(model);
  }

  private static void firstRows(Model model) {
    int[] ids = {0, 599, 3, 599, 17};
    for (TableSpec table : model.spec().getTablesList()) {
      Rows rows = model.gather(table.getName(), ids);
      assertArrayEquals(FirstRows.of(table, model.spec().getSeed(), ids), rows.values());
      assertEquals(table.getRole().equals("head"), rows.biases() != null);
    }
    Rows again = new Rows(new float[32], new float[2]);
    assertSame(again, model.gather("labels", new int[] {3, 4}, GatherOptions.into(again)));
    assertArrayEquals(model.gather("labels", new int[] {3, 4}).values(), again.values());
    model.gather("labels", new int[] {4, 3}, GatherOptions.into(again));
    assertArrayEquals(model.gather("labels", new int[] {4, 3}).values(), again.values());
    assertEquals(0, model.gather("labels", new int[0]).values().length);
  }

  private static void topK(Model model) {
    Rows rows = model.gather("labels", TestModels.range(5000));
    float[] hidden = TestModels.random(new Random(SEED), 3 * 16);
    TopK best = model.topK("labels", hidden, TopKOptions.exact(4));
    for (int query = 0; query < 3; query++) {
      double[] logits = new double[5000];
      for (int i = 0; i < logits.length; i++) {
        logits[i] = rows.biases()[i];
        for (int j = 0; j < 16; j++) {
          logits[i] += (double) hidden[16 * query + j] * rows.values()[16 * i + j];
        }
      }
      int[] expected = IntStream.range(0, 5000).boxed().sorted((a, b) -> Double.compare(logits[b], logits[a])).limit(4)
          .mapToInt(i -> i).toArray();
      assertArrayEquals(expected, java.util.Arrays.copyOfRange(best.ids(), 4 * query, 4 * query + 4));
      assertEquals(logits[expected[0]], best.logits()[4 * query], 1e-4);
      assertEquals(5000, best.scoredRows()[query]);
    }
  }

  /** Hashing finds the best row of many a query, and seldom by chance; more of them with a budget. */
  private static void hashedTopK(Model model) {
    int queries = 64;
    float[] hidden = TestModels.random(new Random(SEED), queries * 16);
    int[] exact = model.topK("labels", hidden, TopKOptions.exact(1)).ids();
    TopK found = model.topK("labels", hidden, TopKOptions.hashed(1));
    TopK more = model.topK("labels", hidden, TopKOptions.hashed(1, 2500));
    assertTrue(hits(exact, found) >= queries / 4, hits(exact, found) + " of " + queries);
    assertTrue(found.scoredRows()[0] < 5000 && found.scoredRows()[0] > 0, found.scoredRows()[0] + " were scored");
    assertTrue(more.scoredRows()[0] > found.scoredRows()[0], more.scoredRows()[0] + " were scored");
    assertTrue(hits(exact, more) >= hits(exact, found), hits(exact, more) + " of " + queries);
  }

  private static long hits(int[] exact, TopK found) {
    return IntStream.range(0, exact.length).filter(i -> exact[i] == found.ids()[i]).count();
  }

  /** Every row, also in more than one message, in two modes. */
  private static void scatter(Model model, TableSpec table) {
    var draw = new Random(SEED);
    int n = (int) table.getRows();
    var order = new java.util.ArrayList<>(IntStream.range(0, n).boxed().toList());
    Collections.shuffle(order, draw);
    int[] ids = order.stream().mapToInt(i -> i).toArray();
    float[] values = TestModels.random(draw, 16 * n);
    float[] biases = table.getRole().equals("head") ? TestModels.random(draw, n) : null;
    model.scatter(table.getName(), ids, values, ScatterMode.ASSIGN, ScatterOptions.biases(biases));
    Rows rows = model.gather(table.getName(), ids);
    assertArrayEquals(values, rows.values());
    assertArrayEquals(biases, rows.biases());
    model.scatter(table.getName(), ids, values, ScatterMode.ADD, ScatterOptions.biases(biases));
    rows = model.gather(table.getName(), ids);
    for (int i = 0; i < values.length; i++) {
      assertEquals(values[i] + values[i], rows.values()[i]);
    }
  }

  /** Equal ids are added up, and the optimizer of the head is plain SGD at 0.5. */
  private static void gradients(Model model) {
    Rows before = model.gather("labels", new int[] {7});
    float[] gradient = new float[32];
    java.util.Arrays.fill(gradient, 0.25f);
    model.scatter("labels", new int[] {7, 7}, gradient, ScatterMode.GRADIENT);
    model.scatter("labels", new int[] {7, 7}, gradient, ScatterMode.GRADIENT, ScatterOptions.learningRate(0.25));
    Rows after = model.gather("labels", new int[] {7});
    assertEquals(-0.375f, after.values()[0] - before.values()[0], 1e-6f);
    assertEquals(before.biases()[0], after.biases()[0]);
  }

  private static void refuses(String said, Executable call) {
    var e = assertThrows(InvalidArgumentException.class, call);
    assertTrue(e.getMessage().contains(said), e.getMessage());
  }

  private static void refusals(Model model) {
    float[] values = new float[16];
    float[] nan = new float[16];
    nan[1] = Float.NaN;
    int[] one = {3};
    refuses("model \"rows\" has no table \"nothing\"; it has: input, labels", () -> model.gather("nothing", one));
    refuses("gather of table labels: id 5000 at place 1 is outside [0, 5000)",
        () -> model.gather("labels", new int[] {1, 5000}));
    refuses("id 4294967295 at place 0", () -> model.gather("labels", new int[] {-1}));
    refuses("must have 16 values and 1 biases",
        () -> model.gather("labels", one, GatherOptions.into(new Rows(values, null))));
    refuses("k is 0, must be in [1, 1024]", () -> TopKOptions.exact(0));
    refuses("budget is 9, must be in [0, 2147483648], and 0 unless hashed", () -> new TopKOptions(1, false, 9));
    refuses("15 numbers are no vectors of table \"labels\"",
        () -> model.topK("labels", new float[15], TopKOptions.exact(1)));
    refuses("row 3 is assigned twice",
        () -> model.scatter("labels", new int[] {3, 3}, new float[32], ScatterMode.ASSIGN));
    refuses("16 values are given for 2 rows of 16",
        () -> model.scatter("labels", new int[] {3, 4}, values, ScatterMode.ADD));
    refuses("its rows have no biases",
        () -> model.scatter("input", one, values, ScatterMode.ADD, ScatterOptions.biases(new float[1])));
    refuses("number 1 is NaN: it must be finite", () -> model.scatter("input", one, nan, ScatterMode.ADD));
    refuses("learningRate 1.0 must be finite, above 0 and of mode GRADIENT",
        () -> model.scatter("input", one, values, ScatterMode.ADD, ScatterOptions.learningRate(1)));
  }

  private static void roles(TestCluster servers) {
    Model model = servers.connect("reader").model("rows");
    model.gather("labels", new int[] {1});
    var e = assertThrows(PermissionDeniedException.class,
        () -> model.scatter("labels", new int[] {1}, new float[16], ScatterMode.ADD));
    assertEquals(false, e.maybeApplied());
  }

  private static void foreignCertificates(TestCluster servers) {
    Path foreign = servers.folder().resolve("foreign");
    TestCluster.run("dslide", "certs", "dev", "--output", foreign);
    Tls own = servers.tls("trainer");
    Options options = Options.DEFAULT.withPatience(Duration.ofSeconds(1));
    var e = assertThrows(UnavailableException.class, () -> Cluster.connect(servers.address(),
        options.withTls(new Tls(foreign.resolve("ca.crt"), own.cert(), own.key()))).close());
    assertTrue(e.getMessage().contains("the handshake failed: check Tls.ca"), e.getMessage());
    e = assertThrows(UnavailableException.class, () -> Cluster.connect(servers.address(), options).close());
    assertTrue(e.getMessage().contains("start the coordinator"), e.getMessage());
  }
}

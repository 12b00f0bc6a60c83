package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.dslide.errors.DslideException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The example, as its users start it, over TLS. */
class TrainTest {
  private static Process start(TestCluster servers, Object... flags) {
    var all = new ArrayList<Object>(List.of("-cp", TestPaths.classPath(), "examples/Train.java", "--cluster",
        servers.address()));
    all.addAll(servers.tlsFlags("trainer", "--"));
    all.addAll(List.of(flags));
    return TestCluster.start(Path.of("."), TestPaths.java(), all.toArray());
  }

  private static JsonObject report(Process process) {
    String said = new String(TestCluster.finish(process), StandardCharsets.UTF_8);
    return JsonParser.parseString(said.strip()).getAsJsonObject();
  }

  @Test
  void itLearns() {
    try (var servers = new TestCluster(2, true, true)) {
      JsonObject done = report(start(servers));
      // 5 epochs of 5,400 points in leases of 2,048, each of 16 batches but the last one of an epoch.
      assertEquals(5 * 5400, done.get("samples").getAsLong());
      assertEquals(5 * 43, done.get("steps").getAsLong());
      assertTrue(done.get("best_p_at_1").getAsDouble() > 0.7, done.toString());
    }
  }

  /**
   * It and {@code dslide train} share the chunks of one job while a shard is killed and started again;
   * every step is one update of each table on each shard, none is lost and none doubled.
   */
  @Test
  void itSharesAJob() throws IOException, InterruptedException {
    try (var servers = new TestCluster(2, true, true)) {
      Path points = servers.folder().resolve("train.txt");
      TestCluster.run("dslide", "data", "gen", "--output", points, "--points", 6000, "--features", 500, "--labels",
          2000);
      Path spec = Files.writeString(servers.folder().resolve("model.json"), """
          {"name": "small", "activations": "bf16", "tables": [
            {"name": "input", "dim": 32, "bias_row": true, "optimizer": {"learning_rate": 0.05}},
            {"name": "labels", "role": "head", "dim": 32, "optimizer": {"learning_rate": 0.05},
             "head": {"max_active": 100, "tail_rows": 64}}],
           "training": {"batch_size": 128, "max_epochs": 10, "validation_fraction": 0}}""");
      var flags = new ArrayList<Object>(List.of("train", "-q", "-o", "json", "--data", points, "--model", spec,
          "--cluster", servers.address(), "--job", "both", "--timeout", "300s"));
      flags.addAll(servers.tlsFlags("trainer", "--tls-"));
      Process own = start(servers, "--data", points, "--model", spec, "--job", "both");
      Cluster cluster = servers.connect("trainer");
      awaitUpdates(cluster, "small", 1); // this program is there first: its start is the slower one
      Process theirs = TestCluster.start(Path.of("."), "dslide", flags.toArray());
      awaitUpdates(cluster, "small", 60);
      servers.restartShard(1);
      JsonObject ours = report(own);
      JsonObject other = report(theirs);
      long steps = ours.get("steps").getAsLong();
      long others = other.get("steps").getAsLong();
      assertTrue(steps > 0 && others > 0, steps + " steps here and " + others + " there: they did not share the job");
      TestModels.assertUpdates(cluster.model("small"), steps + others);
    }
  }

  private static void awaitUpdates(Cluster cluster, String model, long updates) throws InterruptedException {
    for (int i = 0; i < 60_000; i++) {
      try {
        boolean there = cluster.model(model).describe(false).stream().flatMap(part -> part.getTablesList().stream())
            .allMatch(table -> table.getAppliedSteps() >= updates);
        if (there) {
          return;
        }
      } catch (DslideException e) {
        assertFalse(e.maybeApplied() && e.code() == io.grpc.Status.Code.INTERNAL, e.getMessage()); // not there yet
      }
      Thread.sleep(10);
    }
    throw new AssertionError("the model did not get " + updates + " updates");
  }
}

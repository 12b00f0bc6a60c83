package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.dslide.errors.DslideException;
import io.grpc.Context;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Every update adds 1 to cells of its own, so the rows say of each how often it was applied. */
class ExactlyOnceTest {
  /** While shards are killed and started again. */
  @Test
  void whileShardsAreKilled() throws InterruptedException, ExecutionException {
    int updates = 120;
    int dim = 8;
    ExecutorService killer = Executors.newSingleThreadExecutor();
    try (var servers = new TestCluster(2, false, true)) {
      Model model = TestModels.cells(servers.connect("trainer"), 2 * updates, dim);
      int[] ids = TestModels.range(2 * updates);
      Future<?> killed = null;
      for (int number = 0; number < updates; number++) {
        if (number % 30 == 15) {
          int shard = number / 30 % 2;
          killed = killer.submit(() -> servers.restartShard(shard));
        }
        float[] values = new float[ids.length * dim];
        values[number * dim + number % dim] = 1;
        values[(updates + number) * dim] = 1;
        model.scatter("cells", ids, values, ScatterMode.ADD);
      }
      killed.get();
      float[] applied = model.gather("cells", ids).values();
      for (int row = 0; row < ids.length; row++) {
        for (int j = 0; j < dim; j++) {
          assertEquals(j == (row < updates ? row % dim : 0) ? 1 : 0, applied[row * dim + j], "row " + row);
        }
      }
      TestModels.assertUpdates(model, updates);
    } finally {
      killer.shutdown();
    }
  }

  /**
   * A change whose caller gives up is applied once or not at all, also after later ones, and as it was
   * given.
   */
  @Test
  void whenCallersGiveUp() {
    int updates = 45;
    int rows = 1000;
    int dim = 512;
    var timer = Executors.newSingleThreadScheduledExecutor();
    try (var servers = new TestCluster(2, false, false)) {
      Model model = TestModels.cells(servers.connect("trainer"), rows, dim);
      var draw = new Random(20261126);
      var fates = new DslideException[updates];
      float[] values = new float[rows * dim];
      for (int number = 0; number < updates; number++) {
        for (int row = 0; row < rows; row++) {
          values[row * dim + number] = 1;
        }
        try (var context = number % 3 == 0 ? Context.current().withCancellation()
            : Context.current().withDeadlineAfter(draw.nextInt(30_000), TimeUnit.MICROSECONDS, timer)) {
          context.run(() -> model.scatter("cells", TestModels.range(rows), values, ScatterMode.ADD));
        } catch (DslideException e) {
          fates[number] = e;
        }
        Arrays.fill(values, 0); // what is still under way must not see it
      }
      float[] applied = model.gather("cells", TestModels.range(rows)).values();
      for (int number = 0; number < updates; number++) {
        if (number % 3 == 0) {
          assertNull(fates[number]);
        }
        for (int row = 0; row < rows; row++) {
          float value = applied[row * dim + number];
          assertTrue(value == 1 || value == 0 && fates[number] != null,
              "update " + number + ", row " + row + ": " + value + " after " + fates[number]);
        }
      }
    } finally {
      timer.shutdown();
    }
  }
}

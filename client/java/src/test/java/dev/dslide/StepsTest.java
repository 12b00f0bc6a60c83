package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.dslide.errors.DslideException;
import dev.dslide.errors.FailedPreconditionException;
import io.grpc.Context;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Training steps over two shards. */
class StepsTest {
  private static final Sparse FEATURES = new Sparse().add(1, 5, 30);
  private static final Sparse LABELS = new Sparse().add(7, 9);

  private static void step(Model model, Steps steps) {
    float[] hidden = steps.embedForward(FEATURES);
    model.activate(hidden);
    HeadResult head = steps.headForward(hidden, LABELS);
    assertTrue(head.lossSum() > 0 && head.activePairs() >= 2, head.toString());
    steps.embedBackward(steps.headBackward(head, 0.1), 0.1);
  }

  /** They go on after one whose caller has given up, and after a shard was killed. */
  @Test
  void steps() {
    ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor();
    try (var servers = new TestCluster(2, false, true)) {
      Model model = TestModels.wide(servers.connect("trainer"), "steps");
      try (var steps = model.openSteps("short")) {
        assertThrows(FailedPreconditionException.class, () -> steps.embedForward(FEATURES));
        for (int number = 0; number < 12; number++) {
          steps.begin();
          if (number % 2 == 0) {
            giveUp(steps, timer, 100 * number);
            steps.begin();
          }
          if (number == 7) {
            servers.restartShard(1);
          }
          step(model, steps);
        }
        recall(model, steps);
        TestModels.assertUpdates(model, 12);
      }
    } finally {
      timer.shutdown();
    }
  }

  private static void giveUp(Steps steps, ScheduledExecutorService timer, int microseconds) {
    try (var context = Context.current().withDeadlineAfter(microseconds, TimeUnit.MICROSECONDS, timer)) {
      context.run(() -> steps.embedForward(FEATURES));
    } catch (DslideException e) {
      return; // it may be too late, or not
    }
  }

  /** The exact best rows of a sample are those of an exact search. */
  private static void recall(Model model, Steps steps) {
    steps.begin();
    float[] hidden = steps.embedForward(FEATURES);
    model.activate(hidden);
    RecallProbe probe = steps.headForward(hidden, LABELS, 0).probes().get(0);
    TopK best = model.topK("labels", hidden, TopKOptions.exact(10));
    assertEquals(0, probe.sample());
    assertArrayEquals(best.ids(), probe.ids());
    assertArrayEquals(best.logits(), probe.logits(), 1e-4f);
    assertEquals(10, probe.found().length);
  }
}

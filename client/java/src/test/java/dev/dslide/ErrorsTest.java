package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.dslide.errors.CancelledException;
import dev.dslide.errors.InvalidArgumentException;
import dev.dslide.errors.NotFoundException;
import io.grpc.Context;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a program can do with an exception. */
class ErrorsTest {
  private static void refuses(String said, String address, Options options) {
    var e = assertThrows(InvalidArgumentException.class, () -> Cluster.connect(address, options).close());
    assertTrue(e.getMessage().contains(said), e.getMessage());
  }

  @Test
  void connectRefuses(@TempDir Path folder) throws IOException {
    Path file = folder.resolve("none.pem");
    Files.writeString(file, "nothing");
    refuses("the connection would not be encrypted", "10.0.0.1:7000", Options.DEFAULT);
    refuses("address \"here\" is not host:port", "here", Options.DEFAULT);
    refuses("address \"here:99999\" is not host:port", "here:99999", Options.DEFAULT);
    refuses("No certificate data found", "10.0.0.1:7000", Options.DEFAULT.withTls(new Tls(file, null, null)));
    refuses("cannot read", "10.0.0.1:7000", Options.DEFAULT.withTls(new Tls(folder.resolve("x"), null, null)));
    var e = assertThrows(InvalidArgumentException.class, () -> Options.DEFAULT.withTls(new Tls(null, file, null)));
    assertTrue(e.getMessage().contains("give both"), e.getMessage());
    e = assertThrows(InvalidArgumentException.class, () -> Options.DEFAULT.withJob("No"));
    assertTrue(e.getMessage().contains("job \"No\" is no name"), e.getMessage());
    assertThrows(InvalidArgumentException.class, () -> Options.DEFAULT.withRequestId("a b"));
    assertThrows(InvalidArgumentException.class, () -> Options.DEFAULT.withTimeout(Duration.ofSeconds(-1)));
  }

  @Test
  void ofACluster() {
    try (var servers = new TestCluster(1, false, false)) {
      Cluster cluster = servers.connect("trainer");
      var none = assertThrows(NotFoundException.class, () -> cluster.model("unheard-of"));
      assertEquals("UNKNOWN_MODEL", none.reason());
      assertTrue(none.getMessage().contains("no model \"unheard-of\"; it has none: train one first"),
          none.getMessage());
      var job = assertThrows(NotFoundException.class, () -> cluster.deleteJob("unheard-of"));
      assertEquals("UNKNOWN_JOB", job.reason());
      assertEquals(16, job.requestId().length());
      assertTrue(job.getMessage().startsWith("coordinator at 127.0.0.1:"), job.getMessage());
      Context.CancellableContext ended = Context.current().withCancellation();
      ended.cancel(null);
      ended.run(() -> assertThrows(CancelledException.class, cluster::status));
      Model model = TestModels.wide(cluster, "small");
      cluster.dropModel("small");
      var gone = assertThrows(NotFoundException.class,
          () -> model.scatter("labels", new int[] {1}, new float[16], ScatterMode.ADD));
      assertEquals("UNKNOWN_MODEL", gone.reason());
      assertFalse(gone.maybeApplied());
    }
  }

  /** An interrupted thread gets its answer soon, and stays interrupted. */
  @Test
  void interruption() {
    try (var servers = new TestCluster(2, false, false)) {
      Model model = TestModels.wide(servers.connect("trainer"), "small");
      Thread.currentThread().interrupt();
      assertThrows(CancelledException.class, () -> model.gather("labels", TestModels.range(5000)));
      assertTrue(Thread.interrupted());
      assertEquals(5000, model.gather("labels", TestModels.range(5000)).biases().length);
    }
  }
}

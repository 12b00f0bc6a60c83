// Gathers and scatters 10,000 rows of 128 floats as a trainer with an optimizer of its own moves them.
//
//   java -cp "target/dslide-0.2.0.jar:target/lib/*" examples/RowsBench.java 127.0.0.1:7000

import com.sun.management.OperatingSystemMXBean;
import dev.dslide.Cluster;
import dev.dslide.GatherOptions;
import dev.dslide.Model;
import dev.dslide.Rows;
import dev.dslide.ScatterMode;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.IntStream;

/** The program. A head, so each row has a bias; bytes per second are of the weights. */
public final class RowsBench {
  private static final int ROWS = 10_000;
  private static final int DIM = 128;
  // Until then the JVM's compilers take as much of two processors as the calls.
  private static final int WARM_UP = 1_000;
  private static final int CALLS = 300;

  private RowsBench() {}

  /** Measures a cluster. */
  public static void main(String[] arguments) {
    try (var cluster = Cluster.connect(arguments[0])) {
      Model model = cluster.createModel("""
          {"name": "bench", "tables": [{"name": "bench", "role": "head", "rows": 200000, "dim": %d,
           "head": {"max_active": 0}}]}""".formatted(DIM));
      int[] ids = IntStream.range(0, ROWS).map(i -> 17 * i).toArray();
      var memory = new Rows(new float[ROWS * DIM], new float[ROWS]);
      measure("gather", cluster, () -> model.gather("bench", ids, GatherOptions.into(memory)));
      float[] changes = new float[ROWS * DIM];
      measure("scatter", cluster, () -> model.scatter("bench", ids, changes, ScatterMode.ADD));
      cluster.dropModel("bench");
    }
  }

  private static void measure(String what, Cluster cluster, Runnable call) {
    for (int i = 0; i < WARM_UP; i++) {
      call.run();
    }
    var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    long cpu = system.getProcessCpuTime();
    double[] seconds = new double[CALLS];
    for (int i = 0; i < CALLS; i++) {
      long start = System.nanoTime();
      call.run();
      seconds[i] = (System.nanoTime() - start) * 1e-9;
    }
    // Of this process, on all processors: what remains when the machine is busy.
    double cpuMs = (system.getProcessCpuTime() - cpu) * 1e-6 / CALLS;
    Arrays.sort(seconds);
    double bytes = 4.0 * ROWS * DIM;
    System.out.printf(Locale.ROOT, "%s, %d shards: median %.2f GB/s, best %.2f GB/s, %.2f ms of CPU a call, load "
        + "%.1f%n",
        what, cluster.numShards(), bytes / seconds[CALLS / 2] * 1e-9, bytes / seconds[0] * 1e-9, cpuMs,
        system.getSystemLoadAverage());
  }
}

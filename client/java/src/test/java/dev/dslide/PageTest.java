package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The program and the commands of docs/start/client-java.md, as they stand there, with the built jar. */
class PageTest {
  private static final String PROGRAM = """
      import dev.dslide.*;
      import dev.dslide.errors.*;
      import dev.dslide.v1.AcquireWorkResponse;
      import dev.dslide.v1.ChunkLease;
      import dev.dslide.v1.JobSpec;
      import dev.dslide.v1.JobStatus;
      import dev.dslide.v1.PredictResult;
      import dev.dslide.v1.PredictedLabel;
      import dev.dslide.v1.WorkReport;
      import java.time.Duration;
      import java.util.Arrays;
      import java.util.List;

      public class Page {
        public static void main(String[] arguments) {
      %s
        }
      }
      """;

  private static List<String> snippets(String page, String language) {
    var found = new ArrayList<String>();
    var snippet = Pattern.compile("```" + language + "\n(.*?)```", Pattern.DOTALL).matcher(page);
    while (snippet.find()) {
      found.add(snippet.group(1));
    }
    return found;
  }

  private static String run(Path folder, String program, Object... arguments) {
    return new String(TestCluster.finish(TestCluster.start(folder, program, arguments)), StandardCharsets.UTF_8);
  }

  @Test
  void thePage(@TempDir Path folder) throws IOException {
    String page = Files.readString(TestPaths.docs().resolve("start/client-java.md"));
    List<String> commands = snippets(page, "sh");
    assertEquals(2, commands.size());
    assertTrue(snippets(page, "xml").get(0).contains("<version>" + Cluster.VERSION + "</version>"));
    try (var servers = new TestCluster(2, false, false)) {
      servers.connect("trainer").createModel("""
          {"name": "network", "tables": [
            {"name": "input", "rows": 101, "dim": 8, "bias_row": true},
            {"name": "labels", "role": "head", "rows": 1000, "dim": 8}]}""");
      String body = String.join("\n", snippets(page, "java")).replace("127.0.0.1:7000", servers.address())
          .replace("127.0.0.1:7030", servers.serveModel("network"));
      Path program = Files.writeString(folder.resolve("Page.java"), PROGRAM.formatted(body));
      String said = run(folder, TestPaths.java(), "-cp", TestPaths.classPath(), program);
      for (String expected : List.of("2 table\n", "true 1\n", "UNKNOWN_MODEL the cluster has no model "
          + "\"unheard-of\"; it "
          + "has: network, table", "coordinator at 127.0.0.1:1, GetClusterMap: ")) {
        assertTrue(said.contains(expected), said + "\nexpected in it: " + expected);
      }
      said = run(Path.of("."), "/bin/sh", "-e", "-c", commands.get(1).replace("127.0.0.1:7000", servers.address()));
      assertTrue(said.contains("\"best_p_at_1\":0."), said);
    }
  }
}

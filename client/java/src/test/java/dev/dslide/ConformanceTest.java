package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The artifact and the training example pass the whole course of {@code dslide conformance}. */
class ConformanceTest {
  private static int[] ids(JsonElement list) {
    JsonArray all = list.getAsJsonArray();
    return IntStream.range(0, all.size()).map(i -> all.get(i).getAsInt()).toArray();
  }

  private static float[] flat(JsonElement rows) {
    JsonArray all = new JsonArray();
    rows.getAsJsonArray().forEach(row -> all.addAll(row.getAsJsonArray()));
    float[] values = new float[all.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = all.get(i).getAsFloat();
    }
    return values;
  }

  /** Does a task. Returns what is to be assigned to the answers; null: nothing is. */
  private static float[] answer(Model model, JsonObject task) {
    String table = task.get("table").getAsString();
    switch (task.get("do").getAsString()) {
      case "gather":
        return model.gather(table, ids(task.get("rows"))).values();
      case "scatter":
        model.scatter(table, ids(task.get("rows")), flat(task.get("values")), ScatterMode.ADD);
        return null;
      case "first_rows":
        return FirstRows.of(model.table(table), model.spec().getSeed(), ids(task.get("rows")));
      case "top_k":
        var options = TopKOptions.exact(task.get("k").getAsInt());
        int[] best = model.topK(table, flat(task.get("queries")), options).ids();
        float[] answers = new float[best.length];
        for (int i = 0; i < best.length; i++) {
          answers[i] = best[i];
        }
        return answers;
      default:
        throw new AssertionError("the course has an unknown task: " + task);
    }
  }

  private static void take(Path folder) throws IOException {
    JsonObject course = JsonParser.parseString(Files.readString(folder.resolve("course.json"))).getAsJsonObject();
    String address = course.get("coordinator").getAsString();
    Map<String, Model> models = new HashMap<>();
    // The course refuses once what it is asked first; a busy machine takes longer than four seconds for it.
    try (var cluster = Cluster.connect(address, Options.DEFAULT.withPatience(Duration.ofMinutes(2)))) {
      for (JsonElement spec : course.getAsJsonArray("models")) {
        Model model = cluster.createModel(spec.toString());
        models.put(model.spec().getName(), model);
      }
      for (JsonElement each : course.getAsJsonArray("tasks")) {
        JsonObject task = each.getAsJsonObject();
        if (task.get("do").getAsString().equals("train")) {
          TestCluster.run(TestPaths.java(), "-cp", TestPaths.classPath(), "examples/Train.java", "--cluster", address,
              "--model", folder.resolve(task.get("spec").getAsString()), "--data",
              folder.resolve(task.get("points").getAsString()), "--job", task.get("job").getAsString());
          continue;
        }
        float[] values = answer(models.get(task.get("model").getAsString()), task);
        if (values != null) {
          JsonObject to = task.getAsJsonObject("answers");
          Model answers = models.get(to.get("model").getAsString());
          String table = to.get("table").getAsString();
          int[] rows = TestModels.range(values.length / (int) answers.table(table).getDim());
          for (int i = 0; i < rows.length; i++) {
            rows[i] += to.get("first_row").getAsInt();
          }
          answers.scatter(table, rows, values, ScatterMode.ASSIGN);
        }
      }
    }
  }

  @Test
  void theCourse(@TempDir Path folder) throws IOException, InterruptedException {
    Path course = folder.resolve("course");
    Process server = new ProcessBuilder(TestCluster.programs().resolve("dslide").toString(), "conformance", "-o", "json",
        "--listen", "127.0.0.1:0", "--course", course.toString(), "--until-stdin-ends")
        .redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try (var out = new BufferedReader(new InputStreamReader(server.getInputStream(), StandardCharsets.UTF_8))) {
      assertNotNull(out.readLine(), "the server ended"); // the course is written by then
      take(course);
      server.getOutputStream().close();
      String verdicts = out.readLine();
      assertEquals(0, server.waitFor(), verdicts);
      assertTrue(JsonParser.parseString(verdicts).getAsJsonObject().get("passed").getAsBoolean(), verdicts);
    } finally {
      server.destroyForcibly();
    }
  }
}

package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import dev.dslide.data.Point;
import dev.dslide.data.PointSet;
import dev.dslide.errors.InvalidArgumentException;
import dev.dslide.v1.PredictMode;
import dev.dslide.v1.PredictedLabel;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/**
 * Labels and logits of a model that {@code dslide train} has trained are those of {@code dslide predict}
 * and of {@code dslide serve}. All rows are active and one thread trains, so every run trains the same.
 */
class PredictTest {
  // Two that differ in all that prediction depends on.
  private static final String SINGLE = """
      {"name": "single", "activations": "f32", "tables": [
        {"name": "input", "dim": 24, "bias_row": true, "optimizer": {"learning_rate": 0.01}},
        {"name": "labels", "role": "head", "dim": 24, "optimizer": {"learning_rate": 0.01},
         "head": {"max_active": 0}}],
       "training": {"transform": "l2", "batch_size": 64, "max_epochs": 2, "in_flight_steps": 1,
                    "validation_fraction": 0}}""";
  private static final String HALF = """
      {"name": "half", "activations": "bf16", "tables": [
        {"name": "input", "dim": 24, "optimizer": {"learning_rate": 0.01}},
        {"name": "middle", "role": "dense", "rows": 16, "dim": 24, "optimizer": {"learning_rate": 0.01}},
        {"name": "labels", "role": "head", "dim": 16, "optimizer": {"learning_rate": 0.01},
         "head": {"max_active": 0}}],
       "training": {"transform": "raw", "batch_size": 64, "max_epochs": 2, "in_flight_steps": 1,
                    "validation_fraction": 0}}""";

  private static Path generate(TestCluster servers, String name, int first, int count) {
    Path path = servers.folder().resolve(name);
    TestCluster.run("dslide", "data", "gen", "--output", path, "--points", count, "--first-point", first, "--features",
        300, "--labels", 400, "--seed", 7);
    return path;
  }

  @Test
  void predictionsAreThoseOfTheProgram() throws IOException {
    try (var servers = new TestCluster(3, false, false)) {
      Path train = generate(servers, "train.txt", 0, 600);
      Path test = generate(servers, "test.txt", 600, 1);
      Point point = PointSet.read(test).points().get(0);
      check(servers, train, test, point, "single", SINGLE);
      check(servers, train, test, point, "half", HALF);
    }
  }

  private static void check(TestCluster servers, Path train, Path test, Point point, String name, String spec)
      throws IOException {
    Path file = Files.writeString(servers.folder().resolve(name + ".json"), spec);
    TestCluster.run("dslide", "train", "-q", "--cluster", servers.address(), "--model", file, "--job", name, "--data",
        train, "--threads", 1);
    JsonObject said = JsonParser.parseString(new String(TestCluster.run("dslide", "predict", "-o", "json", "--cluster",
        servers.address(), "--name", name, "--data", test), StandardCharsets.UTF_8)).getAsJsonObject();
    JsonArray expected = said.getAsJsonArray("predictions");
    Model model = servers.connect("trainer").model(name);
    Sparse features = new Sparse().add(point.features(), point.values());
    float[] hidden = model.hidden(name.equals("single") ? features.scale() : features);
    String head = model.spec().getTables(model.spec().getTablesCount() - 1).getName();
    TopK best = model.topK(head, hidden, TopKOptions.exact(expected.size()));
    for (int i = 0; i < expected.size(); i++) {
      JsonObject one = expected.get(i).getAsJsonObject();
      assertEquals(one.get("label").getAsInt(), best.ids()[i]);
      assertEquals(one.get("logit").getAsFloat(), best.logits()[i], 1e-3f);
    }
    served(servers.serveModel(name), point, best);
  }

  private static void served(String address, Point point, TopK expected) {
    try (var server = Predictor.connect(address)) {
      assertEquals(400, server.model().getNumLabels());
      var results = server.predict(List.of(Query.features(point.features(), point.values())), 5,
          PredictMode.PREDICT_MODE_EXACT);
      List<PredictedLabel> labels = results.get(0).getLabelsList();
      assertEquals(5, labels.size());
      for (int i = 0; i < 5; i++) {
        assertEquals(expected.ids()[i], labels.get(i).getId());
        assertEquals(expected.logits()[i], labels.get(i).getScore(), 1e-3f);
      }
      var e = assertThrows(InvalidArgumentException.class, () -> server.predict(List.of(Query.text("a web server")),
          5));
      assertEquals("WRONG_INPUT", e.reason());
      assertTrue(e.getMessage().startsWith("dslide serve at "), e.getMessage());
    }
  }
}

package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import com.google.protobuf.util.JsonFormat;
import dev.dslide.data.EpochOrder;
import dev.dslide.data.Split;
import dev.dslide.hashing.HashFamily;
import dev.dslide.v1.HashSpec;
import dev.dslide.v1.InitSpec;
import dev.dslide.v1.ModelSpec;
import dev.dslide.v1.TableSpec;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Against C++, bit for bit, over 10,000 seeded cases each. */
class VectorsTest {
  private static final Map<String, Integer> WIDTHS =
      Map.of("<f4", 4, "<u4", 4, "<u2", 2, "<i8", 8, "<u8", 8, "<f8", 8, "<i4", 4, "<u1", 1);
  private static final Map<String, List<Section>> SECTIONS = new HashMap<>();

  private record Vector(ByteString data, int[] shape) {}

  /** A section of what dslide_client_vectors prints: what C++ computes. */
  private record Section(JsonObject settings, Map<String, Vector> arrays) {
    ByteString data(String name) {
      return arrays.get(name).data();
    }

    int[] shape(String name) {
      return arrays.get(name).shape();
    }

    int[] ids(String name) {
      return Numbers.toIds(data(name));
    }

    float[] floats(String name) {
      return Numbers.toFloats(data(name));
    }

    long[] longs(String name) {
      long[] longs = new long[data(name).size() / 8];
      Numbers.view(data(name)).asLongBuffer().get(longs);
      return longs;
    }

    short[] shorts(String name) {
      short[] shorts = new short[data(name).size() / 2];
      Numbers.view(data(name)).asShortBuffer().get(shorts);
      return shorts;
    }

    long seed() {
      return Long.parseUnsignedLong(settings.get("seed").getAsString());
    }
  }

  private interface Check {
    /** Returns how many cases it had. */
    int run(Section section) throws Exception;
  }

  @BeforeAll
  static void read() {
    byte[] out = TestCluster.run("dslide_client_vectors");
    for (int at = 0; at < out.length;) {
      int end = at;
      while (out[end] != '\n') {
        end++;
      }
      var header = JsonParser.parseString(new String(out, at, end - at, StandardCharsets.UTF_8)).getAsJsonObject();
      at = end + 1;
      var arrays = new HashMap<String, Vector>();
      for (var element : header.getAsJsonArray("arrays")) {
        JsonArray array = element.getAsJsonArray();
        int[] shape = new int[array.get(2).getAsJsonArray().size()];
        int size = WIDTHS.get(array.get(1).getAsString());
        for (int i = 0; i < shape.length; i++) {
          shape[i] = array.get(2).getAsJsonArray().get(i).getAsInt();
          size *= shape[i];
        }
        arrays.put(array.get(0).getAsString(), new Vector(ByteString.copyFrom(out, at, size), shape));
        at += size;
      }
      SECTIONS.computeIfAbsent(header.get("section").getAsString(), name -> new ArrayList<>())
          .add(new Section(header.getAsJsonObject("settings"), arrays));
    }
  }

  private static void each(String name, int least, Check check) throws Exception {
    int cases = 0;
    for (Section section : SECTIONS.getOrDefault(name, List.of())) {
      cases += check.run(section);
    }
    assertTrue(cases >= least, cases + " cases of " + name + ", expected at least " + least);
  }

  @Test
  void fingerprints() throws Exception {
    each("fingerprints", 20_000, section -> {
      var spec = HashSpec.newBuilder();
      JsonFormat.parser().merge(section.settings().toString(), spec);
      var family = HashFamily.of(spec.build(), section.shape("hidden")[1], 1);
      assertEquals(section.shape("fingerprints")[1], family.numTables());
      assertArrayEquals(section.ids("fingerprints"), family.hash(section.floats("hidden")),
          section.settings().toString());
      return section.shape("hidden")[0];
    });
  }

  @Test
  void firstRows() throws Exception {
    each("first_rows", 10_000, section -> {
      var settings = section.settings();
      var table = TableSpec.newBuilder().setName(settings.get("table").getAsString())
          .setDim(settings.get("dim").getAsLong()).setInit(InitSpec.newBuilder()
              .setKind(settings.get("kind").getAsString()).setScale(settings.get("scale").getAsDouble())).build();
      int[] rows = section.ids("rows");
      assertEquals(section.data("values"), Numbers.floats(FirstRows.of(table, section.seed(), rows)),
          settings.toString());
      return rows.length;
    });
  }

  @Test
  void roundings() throws Exception {
    each("bf16", 10_000, section -> {
      int[] bits = section.ids("bits");
      short[] halves = section.shorts("halves");
      for (int i = 0; i < bits.length; i++) {
        assertEquals(halves[i], Numbers.toBf16(Float.intBitsToFloat(bits[i])), Integer.toHexString(bits[i]));
      }
      return bits.length;
    });
  }

  @Test
  void packedIds() throws Exception {
    each("packed_ids", 10_000, section -> {
      int[] offsets = section.ids("offsets");
      int[] rows = section.ids("rows");
      long[] samples = section.longs("samples");
      long[] sizes = section.longs("sizes");
      int firstOffset = 0;
      int firstRow = 0;
      int at = 0;
      for (int i = 0; i < samples.length; i++) {
        var packed = new ByteArrayOutputStream();
        for (int j = firstOffset; j < firstOffset + samples[i]; j++) {
          Numbers.appendPackedIds(packed, rows, firstRow + offsets[j], firstRow + offsets[j + 1]);
        }
        assertEquals(section.data("bytes").substring(at, at + (int) sizes[i]),
            ByteString.copyFrom(packed.toByteArray()), "case " + i);
        at += sizes[i];
        firstRow += offsets[firstOffset + (int) samples[i]];
        firstOffset += samples[i] + 1;
      }
      return samples.length;
    });
  }

  @Test
  void orders() throws Exception {
    each("order", 10_000, section -> {
      var settings = section.settings();
      long points = settings.get("points").getAsLong();
      long most = settings.get("max_validation").getAsLong();
      var split = new Split(points, section.seed(), most == 0 ? 0 : settings.get("fraction").getAsDouble(), most);
      var epoch = new EpochOrder(split.training(), section.seed(), settings.get("epoch").getAsLong());
      long[] order = section.longs("order");
      assertEquals(order.length, split.training());
      for (int i = 0; i < order.length; i++) {
        assertEquals(order[i], split.trainingPoint(epoch.pointAt(i)), settings + " at " + i);
      }
      long[] validation = section.longs("validation");
      assertEquals(validation.length, split.validation());
      for (int i = 0; i < validation.length; i++) {
        assertEquals(validation[i], split.validationPoint(i), settings + " at " + i);
      }
      return (int) points;
    });
  }

  @Test
  void owners() throws Exception {
    each("owners", 10_000, section -> {
      int shards = section.settings().get("shards").getAsInt();
      int[] rows = section.ids("rows");
      short[] expected = section.shorts("shard_of_row");
      Part[] parts = Part.deal(rows, section.shorts("owners"), shards);
      int dealt = 0;
      for (int shard = 0; shard < shards; shard++) {
        for (int i = 0; i < parts[shard].size(); i++) {
          assertEquals(expected[parts[shard].place(i)], shard);
          assertEquals(rows[parts[shard].place(i)], parts[shard].ids()[i]);
        }
        dealt += parts[shard].size();
      }
      assertEquals(rows.length, dealt);
      return rows.length;
    });
  }

  @Test
  void loss() throws Exception {
    each("loss", 20_000, section -> {
      boolean softmax = section.settings().get("loss").getAsString().equals("softmax");
      int shards = section.shape("max_logits")[0];
      int batch = section.shape("max_logits")[1];
      int[] offsets = section.ids("label_offsets");
      float[] logits = section.floats("label_logits");
      Loss.Part[] parts = new Loss.Part[shards];
      int at = 0;
      for (int shard = 0; shard < shards; shard++) {
        var labels = new Sparse();
        for (int i = shard * (batch + 1); i < shard * (batch + 1) + batch; i++) {
          labels.add(new int[offsets[i + 1] - offsets[i]]);
        }
        parts[shard] = new Loss.Part(
            Arrays.copyOfRange(section.floats("max_logits"), shard * batch, (shard + 1) * batch),
            Arrays.copyOfRange(section.floats("exp_sums"), shard * batch, (shard + 1) * batch),
            Arrays.copyOfRange(logits, at, at + labels.count()), labels);
        at += labels.count();
      }
      Loss loss = Loss.combine(softmax, parts, section.floats("targets"));
      double expected = Numbers.view(section.data("loss_sum")).getDouble();
      assertEquals(expected, loss.sum(), 1e-9 * Math.abs(expected));
      float[] partitions = section.floats("log_partitions");
      assertEquals(partitions.length, loss.logPartitions().length);
      for (int i = 0; i < partitions.length; i++) {
        // Libraries differ in the last bit of exp and log.
        assertEquals(partitions[i], loss.logPartitions()[i], 1e-6 * Math.abs(partitions[i]));
      }
      return batch;
    });
  }

  /** What this client takes where a spec says nothing is what C++ takes. */
  @Test
  void defaults() throws Exception {
    each("default_spec", 1, section -> {
      ModelSpec theirs = ModelSpecs.parse(section.settings().toString());
      assertEquals(theirs.getTraining(), ModelSpecs.DEFAULT_TRAINING);
      var own = theirs.getTables(0).getOptimizer();
      assertEquals(own.getLearningRate(), ModelSpecs.DEFAULT_RATES.getLearningRate());
      assertEquals(own.getSchedule(), ModelSpecs.DEFAULT_RATES.getSchedule());
      var hash = theirs.getTables(2).getHead().getHash();
      var resolved = HashFamily.resolve(HashSpec.getDefaultInstance(), 1);
      assertEquals(List.of(hash.getFamily(), hash.getBinSize(), hash.getSeed()),
          List.of(resolved.getFamily(), resolved.getBinSize(), resolved.getSeed()));
      return 1;
    });
  }

  /** Protobuf's JSON form reads the shipped specs as they stand. */
  @Test
  void shippedSpecs() throws Exception {
    Path docs = TestPaths.docs().resolve("models");
    each("spec", 6, section -> {
      String file = section.settings().get("file").getAsString();
      assertTrue(ModelSpecs.parse(Files.readString(docs.resolve(file))).getTablesCount() > 0, file);
      return 1;
    });
  }
}

package dev.dslide.example;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import dev.dslide.v1.InputTransform;
import dev.dslide.v1.ModelSpec;
import dev.dslide.v1.TableSpec;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.TlsChannelCredentials;
import io.grpc.protobuf.StatusProto;
import java.io.File;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Reads, changes and scores rows of a dslide cluster; from protos/ and docs/wire.md alone. */
public final class Example {
  private static final int K = 5;

  public static void main(String[] arguments) throws InterruptedException {
    try {
      System.out.println(run(options(arguments)));
    } catch (StatusException e) {
      Status status = e.getStatus();
      // The cause is what the network or TLS says.
      String cause = status.getCause() == null ? "" : ": " + status.getCause();
      System.err.printf("error: %s %s: %s%s%n", status.getCode(), reasonOf(e),
          status.getDescription(), cause);
      System.exit(1);
    } catch (IOException | IllegalArgumentException e) {
      System.err.printf("error: INVALID_ARGUMENT -: %s%n", e);
      System.exit(1);
    }
  }

  private static String run(Map<String, String> options)
      throws IOException, StatusException, InterruptedException {
    try (Cluster cluster =
        new Cluster(options.get("address"), credentials(options), options.get("model"))) {
      if (cluster.spec().getTablesCount() != 2) {
        throw unsupported("models with dense layers are not supported here");
      }
      TableSpec head = cluster.spec().getTables(1);
      List<Integer> ids = IntStream.range(0, (int) Math.min(10, head.getRows())).boxed().toList();
      changeAndTakeBack(cluster, head, ids);
      float[] hidden = cluster.hidden(parse(options.get("features"), cluster.spec()));
      String predictions = cluster.topK(head, hidden, K).stream()
          .map(best -> String.format("{\"label\":%d,\"logit\":%s}", best.label(), best.logit()))
          .collect(Collectors.joining(","));
      return String.format("{\"model\":\"%s\",\"shards\":%d,\"rows_changed\":%d,\"predictions\":[%s]}",
          cluster.spec().getName(), cluster.size(), ids.size(), predictions);
    }
  }

  private static Map<String, String> options(String[] arguments) {
    Map<String, String> options = new HashMap<>();
    for (int i = 0; i + 1 < arguments.length; i += 2) {
      options.put(arguments[i].replaceFirst("^--", ""), arguments[i + 1]);
    }
    if (!options.keySet().containsAll(List.of("address", "model", "features"))) {
      throw new IllegalArgumentException("needs --address, --model and --features");
    }
    return options;
  }

  private static ChannelCredentials credentials(Map<String, String> options) throws IOException {
    if (!options.containsKey("ca")) return InsecureChannelCredentials.create();
    return TlsChannelCredentials.newBuilder()
        .trustManager(new File(options.get("ca")))
        .keyManager(new File(options.get("cert")), new File(options.get("key")))
        .build();
  }

  private static void changeAndTakeBack(Cluster cluster, TableSpec table, List<Integer> ids)
      throws StatusException, InterruptedException {
    Map<Integer, float[]> before = cluster.gather(table, ids);
    float[][] changes = {{0.25f, 0.25f}, {-0.25f, 0}}; // what is added, and the sum
    for (float[] change : changes) {
      cluster.add(table, ids, change[0]);
      for (var row : cluster.gather(table, ids).entrySet()) {
        for (int i = 0; i < row.getValue().length; i++) {
          float off = row.getValue()[i] - before.get(row.getKey())[i] - change[1];
          // Rows may be stored in bf16.
          if (Math.abs(off) > 0.01) {
            throw Status.ABORTED.withDescription("row " + row.getKey() + " is off by " + off)
                .asException();
          }
        }
      }
    }
  }

  /** Reads feature:value,feature:value. Returns the values as the model wants them. */
  private static SortedMap<Integer, Float> parse(String text, ModelSpec spec)
      throws StatusException {
    InputTransform transform = spec.getTraining().getTransform();
    if (transform == InputTransform.INPUT_TRANSFORM_TF_IDF) {
      throw unsupported("tf-idf needs the weights of the training data");
    }
    SortedMap<Integer, Float> input = new TreeMap<>();
    for (String pair : text.split(",")) {
      String[] parts = pair.split(":", 2);
      input.put(Integer.parseUnsignedInt(parts[0]), Float.valueOf(parts[parts.length - 1]));
    }
    double length = Math.sqrt(input.values().stream().mapToDouble(x -> (double) x * x).sum());
    if (transform == InputTransform.INPUT_TRANSFORM_L2 && length > 0) {
      input.replaceAll((feature, value) -> (float) (value / length));
    }
    TableSpec embedding = spec.getTables(0);
    if (embedding.getBiasRow()) input.put((int) embedding.getRows() - 1, 1f);
    return input;
  }

  private static StatusException unsupported(String what) {
    return Status.UNIMPLEMENTED.withDescription(what).asException();
  }

  /** The reason word in the status details. */
  private static String reasonOf(StatusException e) {
    try {
      for (var detail : StatusProto.fromThrowable(e).getDetailsList()) {
        if (detail.is(ErrorInfo.class)) return detail.unpack(ErrorInfo.class).getReason();
      }
    } catch (InvalidProtocolBufferException malformed) {
      // Not of a dslide server.
    }
    return "-";
  }
}

package dev.dslide.example;

import static dev.dslide.example.Arrays32.f32s;
import static dev.dslide.example.Arrays32.matrix;
import static dev.dslide.example.Arrays32.numbersOf;
import static dev.dslide.example.Arrays32.u32s;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.rpc.ErrorInfo;
import dev.dslide.v1.*;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.StatusException;
import io.grpc.protobuf.StatusProto;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A model of a cluster, and this client of it. close() says good-bye to the shards. */
final class Cluster implements AutoCloseable {
  record Prediction(int label, float logit) {}

  private static final class Shard {
    ShardServiceGrpc.ShardServiceBlockingV2Stub client;
    double capacity;
    long generation;
    long sequence;

    ShardServiceGrpc.ShardServiceBlockingV2Stub call() {
      return client.withDeadlineAfter(DEADLINE_SECONDS, TimeUnit.SECONDS);
    }
  }

  private static final int DEADLINE_SECONDS = 20;
  private static final String JOB = "example";
  private static final int NO_ROW = 0xffffffff;

  private final List<ManagedChannel> channels = new ArrayList<>();
  private final List<Shard> shards = new ArrayList<>();
  private final ByteString clientId;
  private final long topologyVersion;
  private ModelSpec spec;

  Cluster(String address, ChannelCredentials credentials, String model) throws StatusException {
    byte[] random = new byte[16];
    new SecureRandom().nextBytes(random);
    clientId = ByteString.copyFrom(random);
    GetClusterMapResponse map = CoordinatorServiceGrpc.newBlockingV2Stub(open(address, credentials))
        .withDeadlineAfter(DEADLINE_SECONDS, TimeUnit.SECONDS)
        .getClusterMap(GetClusterMapRequest.getDefaultInstance());
    topologyVersion = map.getTopologyVersion();
    for (ShardInfo info : map.getShardsList()) {
      Shard shard = new Shard();
      shard.client = ShardServiceGrpc.newBlockingV2Stub(open(info.getAddress(), credentials));
      shard.capacity = info.getCapacityWeight();
      spec = shard.call().describeModel(
          DescribeModelRequest.newBuilder().setModel(model).build()).getSpec();
      shard.generation = shard.call().hello(
          HelloRequest.newBuilder().setJob(JOB).setClientId(clientId).build()).getGeneration();
      shards.add(shard);
    }
  }

  private ManagedChannel open(String address, ChannelCredentials credentials) {
    channels.add(Grpc.newChannelBuilder(address, credentials).build());
    return channels.get(channels.size() - 1);
  }

  @Override
  public void close() throws StatusException {
    // A shard keeps at most 4,096 clients.
    for (Shard shard : shards) {
      shard.call().bye(ByeRequest.newBuilder().setJob(JOB).setClientId(clientId).build());
    }
    channels.forEach(ManagedChannel::shutdownNow);
  }

  ModelSpec spec() {
    return spec;
  }

  int size() {
    return shards.size();
  }

  /** The owner of each slot: the next one goes to the shard that is furthest behind its share. */
  private int[] deal(long slots) {
    double largest = shards.stream().mapToDouble(shard -> shard.capacity).max().orElseThrow();
    double[] weights = shards.stream().mapToDouble(shard -> shard.capacity / largest).toArray();
    // A loop: the sum of a stream is rounded in another way.
    double total = 0;
    for (double weight : weights) total += weight;
    int[] owners = new int[(int) slots];
    double[] dealt = new double[weights.length];
    for (int slot = 0; slot < owners.length; slot++) {
      double most = Double.NEGATIVE_INFINITY;
      for (int s = 0; s < weights.length; s++) {
        double behind = weights[s] * (slot + 1) - dealt[s] * total;
        if (behind > most) {
          most = behind;
          owners[slot] = s;
        }
      }
      dealt[owners[slot]]++;
    }
    return owners;
  }

  /** Each shard's part of the ids, which ascend. */
  private List<List<Integer>> slice(TableSpec table, Iterable<Integer> ids) {
    int[] owners = deal(table.getNumSlots());
    List<List<Integer>> parts = Stream.generate(() -> (List<Integer>) new ArrayList<Integer>())
        .limit(shards.size()).toList();
    for (int id : ids) parts.get(owners[id % owners.length]).add(id);
    return parts;
  }

  /** Numbers this client's next command for the shard. All earlier ones have been answered. */
  private RequestEnvelope envelope(Shard shard) {
    shard.sequence++;
    return RequestEnvelope.newBuilder().setJob(JOB).setClientId(clientId)
        .setSequence(shard.sequence).setFirstIncomplete(shard.sequence)
        .setGeneration(shard.generation).setTopologyVersion(topologyVersion)
        .setModel(spec.getName()).build();
  }

  /** The weights of the rows by id. */
  Map<Integer, float[]> gather(TableSpec table, List<Integer> ids)
      throws StatusException, InterruptedException {
    Map<Integer, float[]> found = new TreeMap<>();
    List<List<Integer>> parts = slice(table, ids);
    int dim = (int) table.getDim();
    for (int s = 0; s < parts.size(); s++) {
      var stream = shards.get(s).call().gather(GatherRequest.newBuilder().setModel(spec.getName())
          .setTable(table.getName()).setTopologyVersion(topologyVersion)
          .setRows(RowSelection.newBuilder().setRowIds(u32s(parts.get(s)))).build());
      for (GatherResponse chunk; (chunk = stream.read()) != null; ) {
        float[] numbers = numbersOf(chunk.getRows().getValues());
        int[] rows = u32s(chunk.getRows().getRowIds());
        for (int i = 0; i < rows.length; i++) {
          found.put(rows[i], Arrays.copyOfRange(numbers, i * dim, (i + 1) * dim));
        }
      }
    }
    return found;
  }

  /**
   * Adds delta to all weights of the rows. Sends each part twice, as a client does that has lost
   * the answer: the shard applies a sequence once.
   */
  void add(TableSpec table, List<Integer> ids, float delta)
      throws StatusException, InterruptedException {
    List<List<Integer>> parts = slice(table, ids);
    for (int s = 0; s < parts.size(); s++) {
      int rows = parts.get(s).size();
      if (rows == 0) continue;
      float[] values = new float[rows * (int) table.getDim()];
      Arrays.fill(values, delta);
      ScatterRequest request = ScatterRequest.newBuilder().setEnvelope(envelope(shards.get(s)))
          .setTable(table.getName()).setMode(ScatterMode.SCATTER_MODE_ADD).setTotalRows(rows)
          .setRows(RowBlock.newBuilder().setRowIds(u32s(parts.get(s)))
              .setValues(matrix(rows, values)).setBiases(f32s(new float[rows]))).build();
      for (int attempt = 1; attempt <= 2; attempt++) {
        var call = shards.get(s).call().scatter();
        call.write(request);
        call.halfClose();
        call.read();
      }
    }
  }

  /**
   * What the head scores: the sum of the rows of the features, where above 0. Parts are added in
   * shard order and in f32, so that every client gets the same bits.
   */
  float[] hidden(SortedMap<Integer, Float> input) throws StatusException, InterruptedException {
    TableSpec embedding = spec.getTables(0);
    float[] sum = new float[(int) embedding.getDim()];
    List<List<Integer>> parts = slice(embedding, input.keySet());
    for (int s = 0; s < parts.size(); s++) {
      float[] part = embed(shards.get(s), parts.get(s), input);
      for (int i = 0; i < sum.length; i++) sum[i] += part[i];
    }
    boolean bf16 = spec.getActivations() == ElementType.ELEMENT_TYPE_BF16;
    for (int i = 0; i < sum.length; i++) {
      sum[i] = Math.max(sum[i], 0);
      if (bf16) sum[i] = Arrays32.roundToBf16(sum[i]);
    }
    return sum;
  }

  private float[] embed(Shard shard, List<Integer> rows, Map<Integer, Float> input)
      throws StatusException, InterruptedException {
    float[] values = new float[rows.size()];
    for (int i = 0; i < values.length; i++) values[i] = input.get(rows.get(i));
    var stream = shard.call().step();
    stream.write(StepRequest.newBuilder().setEnvelope(envelope(shard)).setStep(1)
        .setFirstOpenStep(1).setEmbedForward(EmbedForward.newBuilder()
            .setTable(spec.getTables(0).getName()).setBatch(1).setRowIds(u32s(rows))
            .setSampleOffsets(u32s(List.of(0, rows.size()))).setValues(f32s(values))).build());
    stream.halfClose();
    StepResponse answer = stream.read();
    if (answer.hasError()) throw toException(answer.getError());
    return numbersOf(answer.getEmbedForward().getPartial());
  }

  /** In the form that the errors of calls have. */
  private static StatusException toException(StepError error) {
    ErrorInfo info =
        ErrorInfo.newBuilder().setDomain("dslide").setReason(error.getReason()).build();
    return StatusProto.toStatusException(com.google.rpc.Status.newBuilder()
        .setCode(error.getCode()).setMessage(error.getMessage()).addDetails(Any.pack(info)).build());
  }

  /** The labels with the largest logits over all shards. */
  List<Prediction> topK(TableSpec head, float[] hidden, int k) throws StatusException {
    TopKRequest request = TopKRequest.newBuilder().setModel(spec.getName())
        .setTable(head.getName()).setHidden(matrix(1, hidden)).setK(k)
        .setMode(TopKMode.TOP_K_MODE_EXACT).build();
    List<Prediction> all = new ArrayList<>();
    for (Shard shard : shards) {
      TopKResponse best = shard.call().topK(request);
      int[] labels = u32s(best.getRowIds());
      float[] logits = f32s(best.getLogits());
      for (int i = 0; i < labels.length; i++) {
        if (labels[i] != NO_ROW) all.add(new Prediction(labels[i], logits[i]));
      }
    }
    all.sort(Comparator.comparing(Prediction::logit).reversed()
        .thenComparing(Prediction::label));
    return all.subList(0, Math.min(k, all.size()));
  }
}

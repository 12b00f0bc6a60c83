package dev.dslide.example;

import com.google.protobuf.*;
import com.google.rpc.ErrorInfo;
import dev.dslide.v1.*;
import io.grpc.*;
import io.grpc.protobuf.StatusProto;
import java.io.File;
import java.nio.*;
import java.security.SecureRandom;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.function.IntUnaryOperator;
import java.util.stream.*;

/** Reads, changes and scores rows of a cluster; from protos/ and docs/understand/wire.md alone. */
public final class Example {
  private static final String JOB = "example";
  private static final int K = 5;
  private static final Deadline DEADLINE = Deadline.after(20, TimeUnit.SECONDS); // of all calls

  private record Prediction(int label, float logit) {}

  /** A shard, and the envelope of this client's last command for it. */
  private record Shard(ShardServiceGrpc.ShardServiceBlockingV2Stub stub, RequestEnvelope.Builder envelope) {
    /** Numbers a command. One whose answer was lost is sent again with the same number, and applied once. */
    RequestEnvelope.Builder next() {
      return envelope.setSequence(envelope.getSequence() + 1).setFirstIncomplete(envelope.getSequence());
    }

    /** The weights of the rows, one row after the other. */
    ByteBuffer gather(String table, List<Integer> rows) throws Exception {
      var selection = RowSelection.newBuilder().setRowIds(pack(rows.size(), rows::get));
      var stream = stub.gather(GatherRequest.newBuilder().setModel(envelope.getModel()).setTable(table)
          .setTopologyVersion(envelope.getTopologyVersion()).setRows(selection).build());
      var weights = ByteString.EMPTY;
      for (GatherResponse chunk; (chunk = stream.read()) != null; ) {
        weights = weights.concat(chunk.getRows().getValues().getData());
      }
      return view(weights);
    }

    /** Adds delta to all weights of the rows, and checks that it is there, but for rounding to bf16. */
    void change(String table, List<Integer> rows, float delta) throws Exception {
      var before = gather(table, rows);
      var values = matrix(rows.size(), pack(before.remaining() / 4, i -> Float.floatToRawIntBits(delta)));
      var block = RowBlock.newBuilder().setRowIds(pack(rows.size(), rows::get)).setValues(values)
          .setBiases(pack(rows.size(), i -> 0));
      var stream = stub.scatter();
      stream.write(ScatterRequest.newBuilder().setEnvelope(next()).setTable(table).setRows(block)
          .setMode(ScatterMode.SCATTER_MODE_ADD).setTotalRows(rows.size()).build());
      stream.halfClose();
      stream.read();
      var failure = Status.ABORTED.withDescription("rows " + rows + " have not changed by " + delta);
      for (var after = gather(table, rows); after.hasRemaining(); ) {
        if (Math.abs(after.getFloat() - before.getFloat() - delta) > 0.01) throw failure.asException();
      }
    }
  }

  /** An array of words of 32 bits: little-endian, whatever this machine is. */
  private static ByteString pack(int count, IntUnaryOperator wordAt) {
    var bytes = ByteBuffer.allocate(4 * count).order(ByteOrder.LITTLE_ENDIAN);
    IntStream.range(0, count).map(wordAt).forEach(bytes::putInt);
    return ByteString.copyFrom(bytes.flip());
  }

  private static ByteBuffer view(ByteString array) {
    return array.asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  private static Matrix matrix(int rows, ByteString data) {
    return Matrix.newBuilder().setRows(rows).setCols(data.size() / 4 / rows)
        .setElementType(ElementType.ELEMENT_TYPE_F32).setData(data).build();
  }

  /** The ids by the shard that owns them, ascending. */
  private static Map<Integer, List<Integer>> slice(TableSpec table, GetClusterMapResponse map, Set<Integer> ids) {
    var slots = (int) table.getNumSlots();
    var owners = view(map.getSlotsList().stream().filter(s -> s.getNumSlots() == slots).findFirst().orElseThrow()
        .getOwners());
    return ids.stream().sorted().collect(Collectors.groupingBy(
        id -> (int) owners.getChar(2 * (id % slots)), TreeMap::new, Collectors.toList()));
  }

  /** The input of the head: the sum of the rows of the features, over all shards, above 0. */
  private static Matrix hidden(ModelSpec spec, GetClusterMapResponse map, List<Shard> shards, String features)
      throws Exception {
    var input = new TreeMap<Integer, Float>(); // values as the model sees them, after l2 or tf-idf
    for (var pair : features.split(",")) {
      input.put(Integer.valueOf(pair.split(":")[0]), Float.valueOf(pair.split(":")[1]));
    }
    var table = spec.getTables(0);
    if (table.getBiasRow()) input.put((int) table.getRows() - 1, 1f);
    var bf16 = spec.getActivations().equals("bf16");
    var sum = new float[(int) table.getDim()];
    for (var part : slice(table, map, input.keySet()).entrySet()) { // in shard order: always the same bits
      var shard = shards.get(part.getKey());
      var rows = part.getValue();
      var values = pack(rows.size(), i -> Float.floatToRawIntBits(input.get(rows.get(i))));
      var forward = EmbedForward.newBuilder().setTable(table.getName()).setBatch(1).setValues(values)
          .setRowIds(pack(rows.size(), rows::get)).setSampleOffsets(pack(2, i -> i * rows.size()));
      var stream = shard.stub().step();
      stream.write(StepRequest.newBuilder().setEnvelope(shard.next()).setStep(1).setFirstOpenStep(1)
          .setEmbedForward(forward).build());
      stream.halfClose();
      var answer = stream.read();
      var error = answer.getError();
      var reason = Any.pack(ErrorInfo.newBuilder().setReason(error.getReason()).build());
      var status = com.google.rpc.Status.newBuilder().setCode(error.getCode()).setMessage(error.getMessage());
      if (answer.hasError()) throw StatusProto.toStatusException(status.addDetails(reason).build());
      var partial = view(answer.getEmbedForward().getPartial().getData());
      for (int i = 0; i < sum.length; i++) {
        sum[i] += bf16 ? Float.intBitsToFloat(partial.getShort() << 16) : partial.getFloat();
      }
    }
    return matrix(1, pack(sum.length, i -> {
      var bits = Float.floatToRawIntBits(Math.max(sum[i], 0));
      return bf16 ? (bits + 0x7fff + (bits >>> 16 & 1)) & 0xffff0000 : bits;
    }));
  }

  private static void run(Map<String, String> options) throws Exception {
    var credentials = !options.containsKey("ca") ? InsecureChannelCredentials.create()
        : TlsChannelCredentials.newBuilder().trustManager(new File(options.get("ca")))
            .keyManager(new File(options.get("cert")), new File(options.get("key"))).build();
    var channel = Grpc.newChannelBuilder(options.get("address"), credentials).build();
    var map = CoordinatorServiceGrpc.newBlockingV2Stub(channel).withDeadline(DEADLINE)
        .getClusterMap(GetClusterMapRequest.getDefaultInstance());
    var id = ByteString.copyFrom(new SecureRandom().generateSeed(16));
    var shards = new ArrayList<Shard>();
    for (var info : map.getShardsList()) {
      var connection = Grpc.newChannelBuilder(info.getAddress(), credentials).build();
      var stub = ShardServiceGrpc.newBlockingV2Stub(connection).withDeadline(DEADLINE);
      var hello = stub.hello(HelloRequest.newBuilder().setJob(JOB).setClientId(id).build());
      var envelope = RequestEnvelope.newBuilder().setJob(JOB).setClientId(id).setModel(options.get("model"))
          .setTopologyVersion(map.getTopologyVersion()).setGeneration(hello.getGeneration());
      shards.add(new Shard(stub, envelope));
    }
    try {
      var model = DescribeModelRequest.newBuilder().setModel(options.get("model")).build();
      var spec = shards.get(0).stub().describeModel(model).getSpec();
      var dense = Status.UNIMPLEMENTED.withDescription("models with dense layers are not supported here");
      if (spec.getTablesCount() != 2) throw dense.asException();
      var head = spec.getTables(1);
      var ids = IntStream.range(0, (int) Math.min(10, head.getRows())).boxed().collect(Collectors.toSet());
      for (var part : slice(head, map, ids).entrySet()) {
        var shard = shards.get(part.getKey());
        shard.change(head.getName(), part.getValue(), 0.25f);
        shard.change(head.getName(), part.getValue(), -0.25f); // takes it back
      }
      var request = TopKRequest.newBuilder().setHidden(hidden(spec, map, shards, options.get("features"))).setK(K)
          .setModel(spec.getName()).setTable(head.getName()).setMode(TopKMode.TOP_K_MODE_EXACT).build();
      var best = new ArrayList<Prediction>();
      for (var shard : shards) {
        var answer = shard.stub().topK(request);
        var logits = view(answer.getLogits());
        for (var labels = view(answer.getRowIds()); labels.hasRemaining(); ) {
          best.add(new Prediction(labels.getInt(), logits.getFloat()));
        }
      }
      var predictions = best.stream().filter(p -> p.label() != 0xffffffff) // no row
          .sorted(Comparator.comparing(Prediction::logit).reversed().thenComparing(Prediction::label))
          .limit(K).map(p -> String.format("{\"label\":%d,\"logit\":%s}", p.label(), p.logit())).toList();
      System.out.printf("{\"model\":\"%s\",\"shards\":%d,\"rows_changed\":%d,\"predictions\":%s}%n",
          spec.getName(), shards.size(), ids.size(), predictions);
    } finally {
      var me = CloseClientRequest.newBuilder().setJob(JOB).setClientId(id).build();
      for (var shard : shards) shard.stub().closeClient(me);
    }
  }

  public static void main(String[] arguments) throws Exception {
    var options = new HashMap<String, String>();
    for (int i = 1; i < arguments.length; i += 2) options.put(arguments[i - 1].substring(2), arguments[i]);
    try {
      run(options);
    } catch (Exception e) {
      var status = Status.fromThrowable(e);
      var reason = "-";
      var details = StatusProto.fromStatusAndTrailers(status, Status.trailersFromThrowable(e));
      for (var detail : details.getDetailsList()) {
        if (detail.is(ErrorInfo.class)) reason = detail.unpack(ErrorInfo.class).getReason();
      }
      var cause = status.getCause() == null ? "" : ": " + status.getCause(); // what the network or TLS says
      System.err.printf("error: %s %s: %s%s%n", status.getCode(), reason, status.getDescription(), cause);
      System.exit(1);
    }
  }
}

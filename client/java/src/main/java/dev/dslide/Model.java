package dev.dslide;

import dev.dslide.errors.Failure;
import dev.dslide.hashing.HashFamily;
import dev.dslide.v1.CheckpointWritten;
import dev.dslide.v1.CoordinatorServiceGrpc;
import dev.dslide.v1.CreateCheckpointRequest;
import dev.dslide.v1.CreateCheckpointResponse;
import dev.dslide.v1.DescribeModelRequest;
import dev.dslide.v1.DescribeModelResponse;
import dev.dslide.v1.GatherRequest;
import dev.dslide.v1.ModelSpec;
import dev.dslide.v1.RestoreCheckpointRequest;
import dev.dslide.v1.RestoreCheckpointResponse;
import dev.dslide.v1.RowSelection;
import dev.dslide.v1.ShardServiceGrpc;
import dev.dslide.v1.TableSpec;
import dev.dslide.v1.TopKMode;
import dev.dslide.v1.TopKRequest;
import dev.dslide.v1.TopKResponse;
import io.grpc.Deadline;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/**
 * A model of a cluster: its spec, and the rows of its tables. Threads may share it. Arrays that are
 * given are not looked at any more when a method has returned, and not changed.
 */
public final class Model {
  // A gather of more ids is asked for in parts.
  private static final int IDS_PER_GATHER = 1 << 18;
  private static final int MAX_VECTORS = 1 << 16;

  private final Cluster cluster;
  private final ModelSpec spec;

  Model(Cluster cluster, ModelSpec spec) {
    this.cluster = cluster;
    this.spec = spec;
  }

  /** What the model is, with every field. */
  public ModelSpec spec() {
    return spec;
  }

  Cluster cluster() {
    return cluster;
  }

  /**
   * A table of the model.
   *
   * @throws dev.dslide.errors.InvalidArgumentException there is none of that name
   */
  public TableSpec table(String name) {
    for (TableSpec table : spec.getTablesList()) {
      if (table.getName().equals(name)) {
        return table;
      }
    }
    throw Failure.of(Status.Code.INVALID_ARGUMENT, "model \"%s\" has no table \"%s\"; it has: %s".formatted(
        spec.getName(), name, spec.getTablesList().stream().map(TableSpec::getName).collect(Collectors.joining(", "))))
        .withReason("UNKNOWN_TABLE").exception();
  }

  /** What each shard holds of the model, by ordinal. Digests cost a pass over all rows. */
  public List<DescribeModelResponse> describe(boolean digests) {
    var answers = new DescribeModelResponse[cluster.numShards()];
    var request = DescribeModelRequest.newBuilder().setModel(spec.getName()).setWithDigests(digests).build();
    cluster.shards().each(shard -> answers[shard.ordinal()] = shard.peer().call(
        ShardServiceGrpc.getDescribeModelMethod(), request,
            digests ? Peer.LONG_TIMEOUT : cluster.options().timeout()));
    return List.of(answers);
  }

  // --- Rows -----------------------------------------------------------------------------------

  /** Reads rows of a table by id, in the order asked for: {@link GatherOptions#DEFAULT}. */
  public Rows gather(String table, int[] ids) {
    return gather(table, ids, GatherOptions.DEFAULT);
  }

  /**
   * Reads rows of a table by id, in the order asked for; ids may repeat. Rows of different shards are
   * not of one instant.
   */
  public Rows gather(String name, int[] ids, GatherOptions options) {
    TableSpec table = table(name);
    RowIds.check(ids, table.getRows(), "gather of table " + name);
    int dim = (int) table.getDim();
    if ((long) ids.length * dim > Integer.MAX_VALUE) {
      throw Failures.invalid("gather of table %s: %d rows of %d are more than an array holds: ask for them in parts",
          name, ids.length, dim);
    }
    boolean hasBias = !table.getRole().equals("embedding");
    Rows into = options.into();
    if (into != null && (into.values().length != ids.length * dim || hasBias != (into.biases() != null)
        || hasBias && into.biases().length != ids.length)) {
      throw Failures.invalid("gather of table %s: the rows to be filled must have %d values and %s biases", name,
          ids.length * dim, hasBias ? String.valueOf(ids.length) : "no");
    }
    var distinct = RowIds.ascend(ids, 0, ids.length) ? null : RowIds.Distinct.of(ids);
    int[] asked = distinct == null ? ids : distinct.ids();
    Rows rows = distinct == null && into != null ? into
        : new Rows(new float[asked.length * dim], hasBias ? new float[asked.length] : null);
    Part[] parts = Part.deal(asked, cluster.owners().of(table), cluster.numShards());
    var request = GatherRequest.newBuilder().setModel(spec.getName()).setTable(name)
        .setTopologyVersion(cluster.owners().topology()).setAveraged(options.averaged()).build();
    cluster.shards().each(shard -> {
      Part part = parts[shard.ordinal()];
      for (int first = 0; first < part.size(); first += IDS_PER_GATHER) {
        gather(shard, request, part.cut(first, Math.min(first + IDS_PER_GATHER, part.size())), dim, rows);
      }
    });
    return distinct == null ? rows : rows.take(distinct.places(), dim, into);
  }

  private static void gather(Shard shard, GatherRequest all, Part part, int dim, Rows rows) {
    GatherRequest request = all.toBuilder()
        .setRows(RowSelection.newBuilder().setRowIds(Numbers.ids(part.ids()))).build();
    Peer peer = shard.peer();
    peer.repeat(Peer.within(peer.options().timeout()), limit -> {
      gatherOnce(peer, request, new RowReceiver(part, dim, rows), part.size(), limit);
      return null;
    });
  }

  private static void gatherOnce(Peer peer, GatherRequest request, RowReceiver receiver, int expected,
      Deadline limit) {
    String id = peer.newRequestId();
    var generated = ShardServiceGrpc.getGatherMethod();
    var method = generated.toBuilder(generated.getRequestMarshaller(), receiver).build();
    try (var exchange = new Exchange<>(peer.channel(), method, limit, Peer.headers(id))) {
      exchange.sendOnly(request);
      while (exchange.receive(limit) != null) {
        continue; // the receiver has put the rows at their places
      }
    } catch (StatusRuntimeException e) {
      throw Failures.ofCall(peer, "Gather", id, e);
    }
    if (receiver.done() != expected) {
      throw Failures.internal("%s answered %d of %d rows", peer.name(), receiver.done(), expected);
    }
  }

  /** Changes rows by id: {@link ScatterOptions#DEFAULT}. */
  public void scatter(String table, int[] ids, float[] values, ScatterMode mode) {
    scatter(table, ids, values, mode, ScatterOptions.DEFAULT);
  }

  /**
   * Changes rows by id, each shard's part whole or not at all, and never twice. Equal ids are added up;
   * ASSIGN refuses them. The scatters of one client to one shard wait for each other.
   *
   * <p>A lost answer is asked for again under the same sequence. When an exception's
   * {@link dev.dslide.errors.DslideException#maybeApplied maybeApplied} is true, nobody knows whether the
   * shard that it names has applied its part; the client's next scatter gives that part up, so that it
   * cannot be applied any more after it. Parts of shards that no exception names, suppressed ones
   * included, are applied.
   *
   * @param values [n, dim]
   */
  public void scatter(String name, int[] ids, float[] values, ScatterMode mode, ScatterOptions options) {
    TableSpec table = table(name);
    RowChange change = RowChange.of(table, mode, ids, values, options);
    Part[] parts = Part.deal(change.ids(), cluster.owners().of(table), cluster.numShards());
    cluster.shards().each(shard -> {
      Part part = parts[shard.ordinal()];
      if (part.size() > 0) {
        shard.scatters().apply(new ScatterQueue.Request(change, part, spec.getName(), cluster.owners().topology()));
      }
    });
  }

  // --- Predictions ----------------------------------------------------------------------------

  /**
   * The best rows of a head for hidden vectors.
   *
   * @param hidden [queries, dim]
   */
  public TopK topK(String name, float[] hidden, TopKOptions options) {
    TableSpec table = table(name);
    int queries = checkVectors(table, hidden);
    var request = TopKRequest.newBuilder().setModel(spec.getName()).setTable(name).setK(options.k())
        .setHidden(Matrices.of(hidden, queries, false)).setMode(TopKMode.TOP_K_MODE_EXACT);
    HashFamily family = options.hashed() ? cluster.families().of(table) : null;
    if (family != null) {
      request.setMode(TopKMode.TOP_K_MODE_HASHED).setBudget((int) options.budget())
          .setFingerprints(Numbers.ids(family.hash(hidden)));
    }
    var answers = new TopKResponse[cluster.numShards()];
    cluster.shards().each(shard -> {
      TopKResponse answer = shard.peer().call(ShardServiceGrpc.getTopKMethod(), request.build());
      int expected = 4 * queries * options.k();
      if (answer.getRowIds().size() != expected || answer.getLogits().size() != expected) {
        throw Failures.internal("%s answered %d bytes of ids and %d of logits for %d queries of %d",
            shard.peer().name(), answer.getRowIds().size(), answer.getLogits().size(), queries, options.k());
      }
      answers[shard.ordinal()] = answer;
    });
    return TopK.of(answers, queries, options.k());
  }

  /** How many vectors of a table's dim there are. */
  static int checkVectors(TableSpec table, float[] vectors) {
    int dim = (int) table.getDim();
    if (vectors.length == 0 || vectors.length % dim != 0 || vectors.length / dim > MAX_VECTORS) {
      throw Failures.invalid("%d numbers are no vectors of table \"%s\": they must be 1 to 65,536 times %d",
          vectors.length, table.getName(), dim);
    }
    Numbers.checkFinite(vectors, "vectors of table " + table.getName());
    return vectors.length / dim;
  }

  /**
   * The input of the head, [samples, its dim], for features as the model sees them, after its transform:
   * what {@link #topK} takes. The bias row is added here. It reads averaged rows where a table keeps them.
   *
   * @throws dev.dslide.errors.UnimplementedException the model is no network: ask {@code dslide serve}
   */
  public float[] hidden(Sparse features) {
    return new Network(this).hidden(features);
  }

  /** Makes sums the input of a dense layer, in place: max(x, 0). */
  public static void rectify(float[] sums) {
    Network.rectify(sums);
  }

  /**
   * Makes sums of feature rows, or those of the last dense layer, the input of the head, in place: max(x,
   * 0), rounded where the model's activations are bf16.
   */
  public void activate(float[] sums) {
    Network.rectify(sums);
    if (halves()) {
      Numbers.roundToBf16(sums);
    }
  }

  boolean halves() {
    return spec.getActivations().equals("bf16");
  }

  // --- Training -------------------------------------------------------------------------------

  /**
   * Opens a client that trains the model for a job, [a-z0-9-]{1,64}. Close it, so that the shards may
   * forget it. A shard that is restarted is greeted anew, and what has no answer is sent again.
   */
  public Steps openSteps(String job) {
    return new Steps(this, job);
  }

  // --- Checkpoints ----------------------------------------------------------------------------

  /** Makes every shard write the model's rows under a name; it needs data directories. */
  public CheckpointWritten saveCheckpoint(String checkpoint) {
    return Operations.finish(cluster.coordinator(), CoordinatorServiceGrpc.getCreateCheckpointMethod(),
        CreateCheckpointRequest.newBuilder().setModel(spec.getName()).setCheckpoint(checkpoint).build(),
        CreateCheckpointResponse::getOperation).getCreateCheckpoint();
  }

  /** Makes every shard take the model's rows from it; returns how many there are. */
  public long restoreCheckpoint(String checkpoint) {
    return Operations.finish(cluster.coordinator(), CoordinatorServiceGrpc.getRestoreCheckpointMethod(),
        RestoreCheckpointRequest.newBuilder().setModel(spec.getName()).setCheckpoint(checkpoint).build(),
        RestoreCheckpointResponse::getOperation).getRestoreCheckpoint().getRows();
  }

  @Override
  public String toString() {
    return "model " + spec.getName() + " " + Arrays.toString(
        spec.getTablesList().stream().map(table -> table.getName() + " " + table.getRows() + " x " + table.getDim())
            .toArray());
  }
}

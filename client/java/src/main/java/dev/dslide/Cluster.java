package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.errors.Failure;
import dev.dslide.errors.UnimplementedException;
import dev.dslide.v1.CancelJobRequest;
import dev.dslide.v1.ClusterCheckpoint;
import dev.dslide.v1.CoordinatorServiceGrpc;
import dev.dslide.v1.CreateClusterCheckpointRequest;
import dev.dslide.v1.CreateClusterCheckpointResponse;
import dev.dslide.v1.DeleteJobRequest;
import dev.dslide.v1.GetClusterMapRequest;
import dev.dslide.v1.GetClusterMapResponse;
import dev.dslide.v1.GetClusterStatusRequest;
import dev.dslide.v1.GetClusterStatusResponse;
import dev.dslide.v1.JobStatus;
import dev.dslide.v1.ListClusterCheckpointsRequest;
import dev.dslide.v1.ListModelsRequest;
import dev.dslide.v1.ModelSpec;
import dev.dslide.v1.RegisterModelRequest;
import dev.dslide.v1.RestoreClusterCheckpointRequest;
import dev.dslide.v1.RestoreClusterCheckpointResponse;
import dev.dslide.v1.ShardInfo;
import dev.dslide.v1.UnregisterModelRequest;
import io.grpc.Context;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/**
 * A client of a coordinator and its shards. Threads may share it. Close it, so that the shards forget
 * the client; no other call may run then.
 */
public final class Cluster implements AutoCloseable {
  /** The version of the client. It speaks with clusters of the same minor version. */
  public static final String VERSION = "0.2.0";

  private final Options options;
  private final Peer coordinator;
  private final Owners owners;
  private final Shards shards;
  private final HashFamilies families = new HashFamilies();
  private final Map<String, ModelSpec> specs = new ConcurrentHashMap<>(); // of models that were opened
  private boolean closed;

  private Cluster(Options options, Peer coordinator, Owners owners, Shards shards) {
    this.options = options;
    this.coordinator = coordinator;
    this.owners = owners;
    this.shards = shards;
  }

  /** Connects in plaintext to a coordinator on this machine: {@link Options#DEFAULT}. */
  public static Cluster connect(String address) {
    return connect(address, Options.DEFAULT);
  }

  /**
   * Connects to the coordinator at "host:port" or "unix:PATH", and to its shards.
   *
   * @throws dev.dslide.errors.UnavailableException nobody answers, or shards are missing
   * @throws dev.dslide.errors.FailedPreconditionException the cluster is of another version
   * @throws dev.dslide.errors.InvalidArgumentException a malformed address, or files that are no
   *     certificates
   */
  public static Cluster connect(String address, Options options) {
    var coordinator = new Peer(options, address, "coordinator", "start the coordinator (dslide up, or "
        + "dslide-coordinator --listen " + address + "), or name the address of one that runs");
    var shards = new ArrayList<Shard>();
    try {
      GetClusterMapResponse members = mapOf(coordinator);
      ByteString clientId = Sequence.newClientId();
      for (ShardInfo info : members.getShardsList()) {
        if (info.getShardId() != shards.size()) {
          throw Failures.internal("%s answered a map that lacks shards", coordinator.name());
        }
        shards.add(new Shard(options, info.getAddress(), shards.size(), clientId));
      }
      var all = new Shards(shards);
      all.each(Shard::checkVersion);
      return new Cluster(options, coordinator, new Owners(coordinator, members), all);
    } catch (RuntimeException e) {
      shards.forEach(Shard::close);
      coordinator.close();
      throw e;
    }
  }

  private static GetClusterMapResponse mapOf(Peer coordinator) {
    try {
      return coordinator.call(CoordinatorServiceGrpc.getGetClusterMapMethod(),
          GetClusterMapRequest.getDefaultInstance());
    } catch (UnimplementedException e) {
      throw Failure.of(Status.Code.FAILED_PRECONDITION, ("%s does not speak dslide.v1: it is of another version than "
          + "this client (%s), or no coordinator at all").formatted(coordinator.name(), VERSION)).withCause(e)
          .exception();
    }
  }

  /** Gives shards that are gone 5 seconds. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      Context.ROOT.run(shards::close);
      coordinator.close();
    }
  }

  Options options() {
    return options;
  }

  Peer coordinator() {
    return coordinator;
  }

  Shards shards() {
    return shards;
  }

  Owners owners() {
    return owners;
  }

  HashFamilies families() {
    return families;
  }

  /** How many shards the cluster has. */
  public int numShards() {
    return shards.size();
  }

  /** Where the shards are and who owns which slots, as the coordinator says now. */
  public GetClusterMapResponse map() {
    return mapOf(coordinator);
  }

  /** Shards, models, jobs, operations and checkpoints in one answer. */
  public GetClusterStatusResponse status() {
    return coordinator.call(CoordinatorServiceGrpc.getGetClusterStatusMethod(),
        GetClusterStatusRequest.getDefaultInstance());
  }

  /**
   * Opens a model of the cluster.
   *
   * @throws dev.dslide.errors.NotFoundException there is none; those that there are, are named
   */
  public Model model(String name) {
    ModelSpec known = specs.get(name);
    if (known != null) {
      return new Model(this, known);
    }
    List<ModelSpec> all = listModels();
    for (ModelSpec spec : all) {
      if (spec.getName().equals(name)) {
        owners.learn(spec);
        specs.put(name, spec);
        return new Model(this, spec);
      }
    }
    throw notFound("model", name, all.stream().map(ModelSpec::getName).collect(Collectors.joining(", ")),
        ": train one first");
  }

  private static RuntimeException notFound(String what, String name, String all, String hint) {
    return Failure.of(Status.Code.NOT_FOUND, "the cluster has no %s \"%s\"; %s".formatted(what, name,
        all.isEmpty() ? "it has none" + hint : "it has: " + all))
        .withReason("UNKNOWN_" + what.toUpperCase(java.util.Locale.ROOT)).exception();
  }

  /**
   * Creates a model on all shards; an equal one that is there is left as it is. Every table has rows;
   * fields that are left out have the defaults of the servers.
   *
   * @throws dev.dslide.errors.FailedPreconditionException a different one has the name
   */
  public Model createModel(ModelSpec spec) {
    coordinator.call(CoordinatorServiceGrpc.getRegisterModelMethod(),
        RegisterModelRequest.newBuilder().setSpec(spec).build());
    specs.remove(spec.getName());
    return new Model(this, ModelSpecs.askedFor(model(spec.getName()).spec(), spec));
  }

  /** Creates a model from the JSON of a spec: see {@link ModelSpecs#parse}. */
  public Model createModel(String json) {
    return createModel(ModelSpecs.parse(json));
  }

  /** All models of the cluster, by name. */
  public List<ModelSpec> listModels() {
    var models = new ArrayList<ModelSpec>();
    var request = ListModelsRequest.newBuilder();
    do {
      var page = coordinator.call(CoordinatorServiceGrpc.getListModelsMethod(), request.build());
      models.addAll(page.getModelsList());
      request.setPageToken(page.getNextPageToken());
    } while (!request.getPageToken().isEmpty());
    return models;
  }

  /** Drops a model and its rows, everywhere. */
  public void dropModel(String name) {
    specs.remove(name);
    coordinator.call(CoordinatorServiceGrpc.getUnregisterModelMethod(),
        UnregisterModelRequest.newBuilder().setModel(name).build());
  }

  /** The training jobs and how far they are. */
  public List<JobStatus> jobs() {
    return status().getJobsList();
  }

  /**
   * How far a job is.
   *
   * @throws dev.dslide.errors.NotFoundException there is none; those that there are, are named
   */
  public JobStatus job(String name) {
    List<JobStatus> all = jobs();
    for (JobStatus job : all) {
      if (job.getJob().equals(name)) {
        return job;
      }
    }
    throw notFound("job", name, all.stream().map(JobStatus::getJob).collect(Collectors.joining(", ")), "");
  }

  /** Ends a job: its trainers end well, and what was trained stays. Returns its status then. */
  public JobStatus cancelJob(String name) {
    return coordinator.call(CoordinatorServiceGrpc.getCancelJobMethod(),
        CancelJobRequest.newBuilder().setJob(name).build()).getJob();
  }

  /**
   * Forgets a job that has ended, so that one of its name begins anew.
   *
   * @throws dev.dslide.errors.FailedPreconditionException JOB_RUNS: it has not ended
   */
  public void deleteJob(String name) {
    coordinator.call(CoordinatorServiceGrpc.getDeleteJobMethod(), DeleteJobRequest.newBuilder().setJob(name).build());
  }

  /** Takes a checkpoint of the whole cluster at one cut, while trainers go on. */
  public ClusterCheckpoint saveCheckpoint() {
    return Operations.finish(coordinator, CoordinatorServiceGrpc.getCreateClusterCheckpointMethod(),
        CreateClusterCheckpointRequest.getDefaultInstance(), CreateClusterCheckpointResponse::getOperation)
        .getCreateClusterCheckpoint();
  }

  /** The cluster's checkpoints, the newest first. */
  public List<ClusterCheckpoint> listCheckpoints() {
    var checkpoints = new ArrayList<ClusterCheckpoint>();
    var request = ListClusterCheckpointsRequest.newBuilder();
    do {
      var page = coordinator.call(CoordinatorServiceGrpc.getListClusterCheckpointsMethod(), request.build());
      checkpoints.addAll(page.getCheckpointsList());
      request.setPageToken(page.getNextPageToken());
    } while (!request.getPageToken().isEmpty());
    return checkpoints;
  }

  /** Restores the whole cluster from a checkpoint, 0: the newest; returns which it was. */
  public long restoreCheckpoint(long id) {
    return Operations.finish(coordinator, CoordinatorServiceGrpc.getRestoreClusterCheckpointMethod(),
        RestoreClusterCheckpointRequest.newBuilder().setCheckpointId(id).build(),
        RestoreClusterCheckpointResponse::getOperation).getRestoreClusterCheckpoint().getCheckpointId();
  }
}

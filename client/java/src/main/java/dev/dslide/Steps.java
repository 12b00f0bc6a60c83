package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.hashing.HashFamily;
import dev.dslide.v1.DenseGather;
import dev.dslide.v1.DenseScatter;
import dev.dslide.v1.EmbedBackward;
import dev.dslide.v1.HeadBackward;
import dev.dslide.v1.HeadForward;
import dev.dslide.v1.HeadForwardResult;
import dev.dslide.v1.JobSpec;
import dev.dslide.v1.Matrix;
import dev.dslide.v1.RowBlock;
import dev.dslide.v1.StepRequest;
import dev.dslide.v1.StepResponse;
import dev.dslide.v1.TableSpec;
import io.grpc.Context;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.ObjIntConsumer;

/**
 * The training steps of one client, one after the other, on all shards.
 *
 * <p>A step is {@link #begin}, {@link #embedForward}, {@link #denseGather} where the model has dense layers,
 * what the program computes, {@link #headForward}, {@link #headBackward}, what the program computes,
 * {@link #denseScatter} of each layer, {@link #embedBackward}. The shards keep its contexts between them.
 *
 * <p>Belongs to one thread at a time. A program that wants several steps in flight opens several, each in
 * a thread of its own. A {@link dev.dslide.errors.DataLossException} with the reason LOST_UPDATES: a shard
 * came back without updates that it had confirmed.
 */
public final class Steps implements AutoCloseable {
  private final Model model;
  private final String job;
  private final ByteString clientId = Sequence.newClientId();
  private final List<StepStream> streams = new ArrayList<>(); // by ordinal
  private final Shards shards;
  private long step;

  Steps(Model model, String job) {
    Options.checkName("job", job);
    this.model = model;
    this.job = job;
    shards = model.cluster().shards();
    for (Shard shard : shards) {
      streams.add(new StepStream(shard, model.spec().getName(), model.cluster().owners().topology(), job, clientId));
    }
    try {
      shards.each(shard -> streams.get(shard.ordinal()).open());
    } catch (RuntimeException e) {
      close(); // a shard keeps what it has for each client until that is closed
      throw e;
    }
  }

  /** Ends the streams and closes the client at the shards; gives those that are gone 5 seconds. */
  @Override
  public void close() {
    Context.ROOT.run(() -> shards.each(shard -> streams.get(shard.ordinal()).close()));
  }

  /**
   * Opens a training job, or joins the one of that name, as this client.
   *
   * @throws dev.dslide.errors.InvalidArgumentException the job's settings differ, or it is not the job for
   *     which the steps were opened
   */
  public Leases join(JobSpec spec) {
    if (!spec.getJob().equals(job)) {
      throw Failures.invalid("the steps were opened for job \"%s\", not for \"%s\"", job, spec.getJob());
    }
    return new Leases(model.cluster().coordinator(), spec, clientId);
  }

  /** Begins the next step. The contexts of the one before go. */
  public void begin() {
    step++;
  }

  /** Does one operation on all shards beside each other, but for those that get none: null. */
  private void each(Function<Shard, StepRequest.Builder> operation, ObjIntConsumer<StepResponse> take) {
    if (step == 0) {
      throw Failures.of(Status.Code.FAILED_PRECONDITION, "no step was begun: call begin()");
    }
    shards.each(shard -> {
      StepRequest.Builder request = operation.apply(shard);
      if (request != null) {
        take.accept(streams.get(shard.ordinal()).run(request.setStep(step).setFirstOpenStep(step)), shard.ordinal());
      }
    });
  }

  private TableSpec embedding() {
    return outer(0, "embedding");
  }

  private TableSpec head() {
    return outer(model.spec().getTablesCount() - 1, "head");
  }

  private TableSpec outer(int place, String role) {
    if (model.spec().getTablesCount() < 2 || !model.spec().getTables(place).getRole().equals(role)) {
      throw Failures.invalid("%s cannot be trained by steps: its first table must be an embedding and its last one "
          + "a head",
          model);
    }
    return model.spec().getTables(place);
  }

  /**
   * The sums of the samples' feature rows, [B, dim], without any activation. The bias row is added here.
   */
  public float[] embedForward(Sparse features) {
    TableSpec table = embedding();
    Sparse[] parts = Network.sliceFeatures(model, table, features);
    Matrix[] sums = new Matrix[parts.length];
    each(shard -> StepRequest.newBuilder().setEmbedForward(Network.embedForward(table, parts[shard.ordinal()],
        streams.get(shard.ordinal()).packed())),
        (response, ordinal) -> sums[ordinal] = response.getEmbedForward().getPartial());
    return Matrices.sum(shards, sums, features.size(), (int) table.getDim());
  }

  /** The dense layers of the model, in their order, as they are now. */
  public List<DenseLayer> denseGather() {
    List<DenseLayer> layers = new ArrayList<>();
    for (TableSpec table : model.spec().getTablesList().subList(1, model.spec().getTablesCount() - 1)) {
      RowBlock[] parts = new RowBlock[shards.size()];
      var request = DenseGather.newBuilder().setTable(table.getName()).build();
      each(shard -> StepRequest.newBuilder().setDenseGather(request),
          (response, ordinal) -> parts[ordinal] = response.getDenseGather().getRows());
      layers.add(new DenseLayer(table, shards, parts));
    }
    return layers;
  }

  /** Updates all rows of a layer once each, at a learning rate. */
  public void denseScatter(DenseLayer layer, DenseLayer.Gradients gradients, double learningRate) {
    each(shard -> {
      RowBlock mine = layer.part(shard.ordinal(), gradients);
      return mine == null ? null : StepRequest.newBuilder().setDenseScatter(DenseScatter.newBuilder()
          .setTable(layer.table().getName()).setGradients(mine).setLearningRate(learningRate));
    }, (response, ordinal) -> {});
  }

  /**
   * The loss of hidden vectors, [B, dim], against the samples' labels: of each sample those rows are
   * active that are its labels, or that hashing finds.
   *
   * @param recallSamples positions in the batch, at most 16, of which the exact best rows are compared with
   *     what hashing finds, by a scan of all rows each
   */
  public HeadResult headForward(float[] hidden, Sparse labels, int... recallSamples) {
    TableSpec table = head();
    int batch = Model.checkVectors(table, hidden);
    labels.check(table, table.getRows(), "labels");
    if (labels.size() != batch) {
      throw Failures.invalid("labels of %d samples are given for %d hidden vectors", labels.size(), batch);
    }
    HashFamily family = model.cluster().families().of(table);
    boolean softmax = !table.getHead().getLoss().equals("sigmoid");
    float[] targets = Loss.targets(labels, softmax);
    Sparse[] slices = labels.slice(model.cluster().owners().of(table), shards.size(), -1);
    var shown = HeadForward.newBuilder().setTable(table.getName())
        .setHidden(Matrices.of(hidden, batch, model.halves()))
        .setFingerprints(family == null ? ByteString.EMPTY : Numbers.ids(family.hash(hidden)))
        .setLabelTargets(Numbers.floats(targets));
    for (int sample : recallSamples) {
      shown.addRecallSamples(sample);
    }
    HeadForward ofAll = shown.build();
    var answers = new HeadForwardResult[slices.length];
    var parts = new Loss.Part[slices.length];
    each(shard -> {
      Sparse mine = slices[shard.ordinal()];
      var request = ofAll.toBuilder();
      return StepRequest.newBuilder().setHeadForward(streams.get(shard.ordinal()).packed()
          ? request.setPackedLabelIds(mine.packed())
          : request.setLabelOffsets(mine.offsetBytes()).setLabelIds(mine.idBytes()));
    }, (response, ordinal) -> {
      answers[ordinal] = response.getHeadForward();
      parts[ordinal] = part(streams.get(ordinal).peer(), answers[ordinal], slices[ordinal]);
    });
    Loss loss = Loss.combine(softmax, parts, targets);
    if (!Double.isFinite(loss.sum())) {
      throw Failures.invalid("the loss of a batch is not finite: training has diverged; lower the learning rate");
    }
    long pairs = 0;
    for (HeadForwardResult answer : answers) {
      pairs += answer.getActivePairs();
    }
    return new HeadResult(loss.sum(), pairs, batch, loss.logPartitions(), RecallProbe.of(answers, recallSamples));
  }

  private static Loss.Part part(Peer peer, HeadForwardResult answer, Sparse labels) {
    var part = new Loss.Part(Numbers.toFloats(answer.getMaxLogits()), Numbers.toFloats(answer.getExpSums()),
        Numbers.toFloats(answer.getLabelLogits()), labels);
    if (part.maxLogits().length != labels.size() || part.expSums().length != labels.size()
        || part.labelLogits().length != labels.count()) {
      throw Failures.internal("%s answered a head of other sizes than were asked", peer.name());
    }
    return part;
  }

  /**
   * Updates the active rows once each, at a learning rate, and returns the gradient of the mean loss with
   * respect to the hidden vectors, [B, dim].
   */
  public float[] headBackward(HeadResult forward, double learningRate) {
    TableSpec table = head();
    Matrix[] gradients = new Matrix[shards.size()];
    var request = HeadBackward.newBuilder().setTable(table.getName()).setScale(1f / forward.batch())
        .setLogPartitions(Numbers.floats(forward.logPartitions())).setLearningRate(learningRate).build();
    each(shard -> StepRequest.newBuilder().setHeadBackward(request),
        (response, ordinal) -> gradients[ordinal] = response.getHeadBackward().getHiddenGradient());
    return Matrices.sum(shards, gradients, forward.batch(), (int) table.getDim());
  }

  /**
   * Updates the rows of the step's features once each, at a learning rate, with the gradient of their
   * sums, [B, dim].
   */
  public void embedBackward(float[] gradient, double learningRate) {
    TableSpec table = embedding();
    int batch = Model.checkVectors(table, gradient);
    var request = EmbedBackward.newBuilder().setTable(table.getName())
        .setGradient(Matrices.of(gradient, batch, model.halves())).setLearningRate(learningRate).build();
    each(shard -> StepRequest.newBuilder().setEmbedBackward(request), (response, ordinal) -> {});
  }
}

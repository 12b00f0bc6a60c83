// Trains an embedding and a hashed head on a dslide cluster and measures what they have learned.
//
//   java -cp "target/dslide-0.2.0.jar:target/lib/*" examples/Train.java --cluster 127.0.0.1:7000
//
// Without --data it makes a small set of points. With --data and --model it shares the job with trainers
// in other languages that are given the same files.

import dev.dslide.Cluster;
import dev.dslide.DenseLayer;
import dev.dslide.Dropout;
import dev.dslide.HeadResult;
import dev.dslide.Leases;
import dev.dslide.Model;
import dev.dslide.ModelSpecs;
import dev.dslide.Options;
import dev.dslide.Sparse;
import dev.dslide.Steps;
import dev.dslide.Tls;
import dev.dslide.TopKOptions;
import dev.dslide.data.EpochOrder;
import dev.dslide.data.Point;
import dev.dslide.data.PointSet;
import dev.dslide.data.Split;
import dev.dslide.errors.DslideException;
import dev.dslide.errors.FailedPreconditionException;
import dev.dslide.errors.NotFoundException;
import dev.dslide.v1.AcquireWorkResponse;
import dev.dslide.v1.ChunkLease;
import dev.dslide.v1.EvaluationLease;
import dev.dslide.v1.JobFinished;
import dev.dslide.v1.JobSpec;
import dev.dslide.v1.JobStage;
import dev.dslide.v1.ModelSpec;
import dev.dslide.v1.StageLease;
import dev.dslide.v1.TableSpec;
import dev.dslide.v1.TrainingSpec;
import dev.dslide.v1.WorkReport;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/** The program. */
public final class Train {
  // Small enough to be learned in seconds; a sample scores 100 rows of 1,000.
  private static final String SMALL_MODEL = """
      {"name": "small", "activations": "bf16",
       "tables": [
         {"name": "input", "role": "embedding", "dim": 32, "bias_row": true, "optimizer": {"learning_rate": 0.05}},
         {"name": "labels", "role": "head", "dim": 32, "optimizer": {"learning_rate": 0.05},
          "head": {"max_active": 100, "tail_rows": 64}}],
       "training": {"batch_size": 128, "max_epochs": 5, "validation_fraction": 0.1}}""";
  private static final Map<String, String> FLAGS = Map.of(
      "--cluster", "HOST:PORT of the coordinator (127.0.0.1:7000)",
      "--data", "sparse text file of points; without it a small set is made",
      "--model", "JSON file of the model; without it a small one",
      "--name", "name of the model; without it that of the file",
      "--job", "trainers of one job share its work; without it train- and the model's name",
      "--ca", "PEM file of the authorities of the servers",
      "--cert", "PEM file of the own certificate",
      "--key", "PEM file of its key");

  /** Runs it. */
  public static void main(String[] arguments) {
    try {
      System.out.println(run(parse(arguments)));
    } catch (DslideException | IOException | IllegalArgumentException e) {
      System.err.println("error: " + e.getMessage());
      System.exit(1);
    }
  }

  private static Map<String, String> parse(String[] arguments) {
    var given = new TreeMap<String, String>();
    for (int i = 0; i < arguments.length; i += 2) {
      if (!FLAGS.containsKey(arguments[i]) || i + 1 == arguments.length) {
        var known = new StringBuilder("found " + arguments[i] + ", expected flags with a value:");
        new TreeMap<>(FLAGS).forEach((flag, meaning) -> known.append("\n  ").append(flag).append("  ")
            .append(meaning));
        throw new IllegalArgumentException(known.toString());
      }
      given.put(arguments[i], arguments[i + 1]);
    }
    return given;
  }

  private static String run(Map<String, String> given) throws IOException {
    PointSet points = given.containsKey("--data") ? PointSet.read(Path.of(given.get("--data"))) : generated();
    String json = given.containsKey("--model") ? Files.readString(Path.of(given.get("--model"))) : SMALL_MODEL;
    var spec = ModelSpecs.fit(ModelSpecs.parse(json), points.numFeatures(), points.numLabels()).toBuilder();
    if (given.containsKey("--name")) {
      spec.setName(given.get("--name"));
    }
    // A trainer outlives the restart of a server, but a wrong address is told soon.
    Options options = Options.DEFAULT.withTls(tls(given)).withPatience(Duration.ofSeconds(30));
    String address = given.getOrDefault("--cluster", "127.0.0.1:7000");
    Cluster.connect(address, options).close();
    options = options.withTimeout(Duration.ofMinutes(5)).withPatience(Duration.ofMinutes(2));
    try (var cluster = Cluster.connect(address, options)) {
      Model model = cluster.createModel(spec.build());
      return new Train(model, points, given.getOrDefault("--job", "train-" + spec.getName())).train();
    }
  }

  private static Tls tls(Map<String, String> given) {
    if (!given.containsKey("--ca") && !given.containsKey("--cert")) {
      return null;
    }
    return new Tls(path(given.get("--ca")), path(given.get("--cert")), path(given.get("--key")));
  }

  private static Path path(String name) {
    return name == null ? null : Path.of(name);
  }

  /**
   * Points that can be learned: three of the 400 features tell of each of the 1,000 labels, and one
   * feature tells nothing.
   */
  private static PointSet generated() {
    int features = 400;
    int labels = 1000;
    var draw = new Random(1);
    int[][] signs = new int[labels][];
    for (int label = 0; label < labels; label++) {
      signs[label] = draw.ints(0, features).distinct().limit(3).toArray();
    }
    var points = new ArrayList<Point>();
    for (int i = 0; i < 6000; i++) {
      int label = draw.nextInt(labels);
      var present = new TreeSet<Integer>();
      IntStream.of(signs[label]).forEach(present::add);
      present.add(draw.nextInt(features));
      int[] ids = present.stream().mapToInt(id -> id).toArray();
      float[] values = new float[ids.length];
      java.util.Arrays.fill(values, 1);
      points.add(new Point(ids, values, new int[] {label}));
    }
    return new PointSet(points, features, labels, 1);
  }

  // --- The trainer ----------------------------------------------------------------------------

  private final Model model;
  private final List<TableSpec> tables;
  private final TableSpec head;
  private final PointSet points;
  private final Split split;
  private final JobSpec job;
  private long stepsDone;
  private long samples;
  private double lastLoss;

  private Train(Model model, PointSet points, String job) {
    ModelSpec spec = model.spec();
    TrainingSpec training = spec.getTraining();
    if (training.getTransform().equals("tf_idf") || training.getPropensityStrength() > 0) {
      throw new IllegalArgumentException("model " + spec.getName() + " has tf_idf or propensities, which this example "
          + "does not know: train it with dslide train");
    }
    this.model = model;
    this.points = points;
    tables = spec.getTablesList();
    head = tables.get(tables.size() - 1);
    split = new Split(points.points().size(), spec.getSeed(), training.getValidationFraction(),
        training.getValidationMaxSamples());
    this.job = ModelSpecs.job(job, spec, split.training(), split.validation() > 0, points.fingerprint());
  }

  /** Does its share of the job, until that has ended. Returns what it has done, as one line of JSON. */
  private String train() {
    long start = System.nanoTime();
    try (Steps steps = model.openSteps(job.getJob()); Leases leases = steps.join(job)) {
      while (true) {
        AcquireWorkResponse work = leases.next();
        switch (work.getWorkCase()) {
          case CHUNK -> leases.finish(chunk(steps, work.getChunk()));
          case EVALUATION -> leases.finish(evaluate(work.getEvaluation()));
          case STAGE -> leases.finish(complete(work.getStage()));
          default -> {
            return report(work.getFinished(), (System.nanoTime() - start) * 1e-9);
          }
        }
      }
    }
  }

  private String report(JobFinished ended, double seconds) {
    if (stepsDone == 0) {
      System.err.println("NOTE: nothing was left to do of job " + job.getJob() + "; another run has another --job");
    }
    return String.format(Locale.ROOT, "{\"model\":\"%s\",\"job\":\"%s\",\"steps\":%d,\"samples\":%d,\"last_loss\":%s,"
        + "\"best_epoch\":%d,\"best_p_at_1\":%s,\"seconds\":%.3f}", model.spec().getName(), job.getJob(), stepsDone,
        samples, lastLoss, ended.getBestEpoch(), ended.getBestMetric(), seconds);
  }

  /** Trains the points at some positions of an epoch's order. */
  private WorkReport chunk(Steps steps, ChunkLease lease) {
    var epoch = new EpochOrder(split.training(), job.getSeed(), lease.getEpoch());
    TrainingSpec training = model.spec().getTraining();
    long size = training.getBatchSize();
    var dropout = new Dropout(job.getSeed(), lease.getEpoch(), training.getInputDropout(),
        training.getHiddenDropout());
    long end = lease.getFirst() + lease.getCount();
    var done = WorkReport.newBuilder().setLeaseId(lease.getLeaseId());
    for (long first = lease.getFirst(); first < end; first += size) {
      var features = new Sparse();
      var labels = new Sparse();
      var places = LongStream.builder();
      for (long position = first; position < Math.min(first + size, end); position++) {
        long place = split.trainingPoint(epoch.pointAt(position));
        Point point = points.points().get((int) place);
        if (point.labels().length > 0) { // points without labels teach nothing
          features.add(point.features(), point.values());
          labels.add(point.labels());
          places.add(place);
        }
      }
      if (labels.size() > 0) {
        long number = (lease.getEpoch() * split.training() + first) / size + 1;
        var batch = new Batch(transformed(features), labels, places.build().toArray(), dropout, number);
        done.setLossSum(done.getLossSum() + step(steps, batch));
        done.setSamples(done.getSamples() + labels.size());
        stepsDone++;
      }
    }
    samples += done.getSamples();
    lastLoss = done.getSamples() == 0 ? lastLoss : done.getLossSum() / done.getSamples();
    return done.build();
  }

  /** The points of one step, by their index in the data; number: of the step in its job, from 1. */
  private record Batch(Sparse features, Sparse labels, long[] points, Dropout dropout, long number) {
    double rate(TableSpec table) {
      return ModelSpecs.learningRate(table.getOptimizer(), number);
    }

    /** Makes the gradient of a layer's output that of its sum, in place. */
    void mask(float[] activated, float[] gradient) {
      for (int i = 0; i < activated.length; i++) {
        gradient[i] = activated[i] == 0 ? 0 : gradient[i] * dropout.scale();
      }
    }
  }

  /**
   * One training step: the network is hidden = max(sum of feature rows, 0), then hidden = max(W hidden + b,
   * 0) for each dense layer, each with its dropout, and logits = head hidden.
   */
  private double step(Steps steps, Batch batch) {
    steps.begin();
    float[] hidden = steps.embedForward(batch.dropout.features(batch.features, batch.points));
    List<DenseLayer> layers = steps.denseGather();
    List<float[]> inputs = new ArrayList<>(); // of each layer
    for (DenseLayer layer : layers) {
      Model.rectify(hidden);
      batch.dropout.units(inputs.size(), batch.points, hidden);
      inputs.add(hidden);
      hidden = layer.forward(hidden);
    }
    Model.rectify(hidden);
    batch.dropout.units(layers.size(), batch.points, hidden);
    model.activate(hidden);
    HeadResult result = steps.headForward(hidden, batch.labels);
    float[] gradient = steps.headBackward(result, batch.rate(head));
    batch.mask(hidden, gradient);
    for (int i = layers.size() - 1; i >= 0; i--) {
      DenseLayer.Gradients found = layers.get(i).backward(inputs.get(i), gradient);
      steps.denseScatter(layers.get(i), found, batch.rate(tables.get(i + 1)));
      gradient = found.below();
      batch.mask(inputs.get(i), gradient);
    }
    steps.embedBackward(gradient, batch.rate(tables.get(0)));
    return result.lossSum();
  }

  private Sparse transformed(Sparse features) {
    return model.spec().getTraining().getTransform().equals("l2") ? features.scale() : features;
  }

  /** Measures P@1 on the held-out points, and keeps the rows when they are the best so far. */
  private WorkReport evaluate(EvaluationLease lease) {
    long hits = 0;
    long labelled = 0;
    for (long first = 0; first < split.validation(); first += 256) {
      var features = new Sparse();
      List<int[]> labels = new ArrayList<>();
      for (long number = first; number < Math.min(first + 256, split.validation()); number++) {
        Point point = points.points().get((int) split.validationPoint(number));
        if (point.labels().length > 0) {
          features.add(point.features(), point.values());
          labels.add(point.labels());
        }
      }
      if (!labels.isEmpty()) {
        float[] hidden = model.hidden(transformed(features));
        int[] best = model.topK(head.getName(), hidden, TopKOptions.exact(1)).ids();
        labelled += labels.size();
        hits += IntStream.range(0, best.length)
            .filter(i -> IntStream.of(labels.get(i)).anyMatch(label -> label == best[i])).count();
      }
    }
    double precision = (double) hits / Math.max(labelled, 1);
    System.err.printf(Locale.ROOT, "epoch %d: P@1 %.4f on %d held-out points%n", lease.getEpoch() + 1, precision,
        labelled);
    if (precision > lease.getMetricToBeat()) {
      try {
        model.saveCheckpoint(bestCheckpoint());
      } catch (FailedPreconditionException e) {
        System.err.println("NOTE: the best epoch cannot be kept: " + e.getMessage());
      }
    }
    return WorkReport.newBuilder().setLeaseId(lease.getLeaseId()).setMetric(precision).build();
  }

  /** Restores the rows of the best epoch; the other trainers wait for that. */
  private WorkReport complete(StageLease lease) {
    var done = WorkReport.newBuilder().setLeaseId(lease.getLeaseId());
    if (lease.getStage() == JobStage.JOB_STAGE_COMPLETION && lease.getBestEpoch() >= 0) {
      try {
        model.restoreCheckpoint(bestCheckpoint());
        done.setBestRestored(true);
      } catch (NotFoundException | FailedPreconditionException e) {
        System.err.println("NOTE: the best epoch was not kept: " + e.getMessage());
      }
    }
    return done.build();
  }

  /** Trainers in all languages know the checkpoint of a job's best epoch by this name of at most 64 letters. */
  private String bestCheckpoint() {
    String name = "best-" + job.getJob();
    if (name.length() <= 64) {
      return name;
    }
    int hash = 0x811c9dc5; // FNV-1a
    for (char letter : job.getJob().toCharArray()) {
      hash = (hash ^ letter) * 0x01000193;
    }
    return "best-%s-%08x".formatted(job.getJob().substring(0, 50), hash);
  }
}

package dev.dslide;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import dev.dslide.hashing.HashFamily;
import dev.dslide.v1.HashSpec;
import dev.dslide.v1.HeadSpec;
import dev.dslide.v1.JobSpec;
import dev.dslide.v1.ModelSpec;
import dev.dslide.v1.OptimizerSpec;
import dev.dslide.v1.ScheduleSpec;
import dev.dslide.v1.TableRate;
import dev.dslide.v1.TableSpec;
import dev.dslide.v1.TrainingSpec;

/** What models are, and the jobs that train them. */
public final class ModelSpecs {
  static final TrainingSpec DEFAULT_TRAINING = TrainingSpec.newBuilder().setTransform("l2").setInputDropout(0)
      .setHiddenDropout(0).setBatchSize(256).setInFlightSteps(2).setMaxEpochs(10).setChunkSamples(0)
      .setValidationFraction(0.05).setValidationMaxSamples(2000).setPatienceEpochs(3).setPropensityStrength(0)
      .setOrderSeed(0).build();
  static final OptimizerSpec DEFAULT_RATES = OptimizerSpec.newBuilder().setLearningRate(0.001)
      .setSchedule(ScheduleSpec.newBuilder().setKind("constant").setWarmupSteps(0).setDecaySteps(0)
          .setFinalFraction(0)).build();

  private ModelSpecs() {}

  /**
   * Reads the JSON form of a spec: what the files of {@code docs/models} have.
   *
   * @throws dev.dslide.errors.InvalidArgumentException it is none
   */
  public static ModelSpec parse(String json) {
    var spec = ModelSpec.newBuilder();
    try {
      JsonFormat.parser().merge(json, spec);
    } catch (InvalidProtocolBufferException e) {
      throw Failures.invalid("this is no model spec: %s", e.getMessage());
    }
    return spec.build();
  }

  /**
   * A copy for data of so many features and labels: with the rows of embedding and head, and with the
   * settings of hashing that the rows decide, so that a kept model stays what it is. It is what trainers
   * in C++ and Python make of the same files.
   *
   * @throws dev.dslide.errors.InvalidArgumentException the spec has other rows
   */
  public static ModelSpec fit(ModelSpec spec, long features, long labels) {
    var fitted = spec.toBuilder();
    for (TableSpec.Builder table : fitted.getTablesBuilderList()) {
      boolean embedding = table.getRole().isEmpty() || table.getRole().equals("embedding");
      if (!embedding && !table.getRole().equals("head")) {
        continue;
      }
      long rows = !embedding ? labels : table.getBiasRow() ? features + 1 : features;
      if (table.getRows() != 0 && table.getRows() != rows) {
        throw Failures.invalid("table \"%s\" of the model has %d rows, but the data (%d features, %d labels) makes "
            + "%d; leave rows out to take it from the data", table.getName(), table.getRows(), features, labels, rows);
      }
      table.setRows(rows);
      if (!embedding) {
        fitHead(table.getHeadBuilder(), rows);
      }
    }
    return fitted.build();
  }

  private static void fitHead(HeadSpec.Builder head, long rows) {
    HashSpec.Builder hash = head.getHashBuilder();
    HashSpec resolved = HashFamily.resolve(hash.build(), rows);
    hash.setCodesPerTable(resolved.getCodesPerTable()).setNumTables(resolved.getNumTables());
    if (hash.getRebuildEverySteps() == 0) {
      hash.setRebuildEverySteps(50 * Math.max(1, rows / 1_000_000));
    }
    if (head.getRecallEverySteps() == 0) {
      head.setRecallEverySteps(20 * (1 + rows / 100_000));
    }
  }

  /**
   * A registered model with what jobs may differ in as it was asked for, defaults included: how it is
   * trained, and the rates of its tables.
   */
  static ModelSpec askedFor(ModelSpec registered, ModelSpec asked) {
    var spec = registered.toBuilder();
    spec.setTraining(DEFAULT_TRAINING.toBuilder().mergeFrom(asked.getTraining()));
    for (int i = 0; i < Math.min(spec.getTablesCount(), asked.getTablesCount()); i++) {
      TableSpec.Builder table = spec.getTablesBuilder(i);
      if (!table.hasOptimizer()) {
        continue;
      }
      OptimizerSpec own = asked.getTables(i).getOptimizer();
      var rates = DEFAULT_RATES.toBuilder();
      if (own.hasLearningRate()) {
        rates.setLearningRate(own.getLearningRate());
      }
      rates.getScheduleBuilder().mergeFrom(own.getSchedule());
      table.getOptimizerBuilder().setLearningRate(rates.getLearningRate()).setSchedule(rates.getSchedule());
    }
    return spec.build();
  }

  /**
   * The spec of a job that trains a model on so many points, as {@code dslide train} says it: trainers in
   * all languages that are given the same data and model share one.
   *
   * @param name of the job
   * @param spec of the model, as {@link Model#spec} has it
   * @param points of one epoch
   * @param evaluate whether the coordinator asks for a measurement after each epoch
   * @param fingerprint any number that all trainers compute in the same way from the data
   */
  public static JobSpec job(String name, ModelSpec spec, long points, boolean evaluate, long fingerprint) {
    TrainingSpec training = spec.getTraining();
    var job = JobSpec.newBuilder().setJob(name).setModel(spec.getName()).setSamplesPerEpoch(points)
        .setChunkSamples(training.getChunkSamples() == 0 ? 16 * training.getBatchSize() : training.getChunkSamples())
        .setMaxEpochs(training.getMaxEpochs()).setPatienceEpochs(training.getPatienceEpochs()).setEvaluate(evaluate)
        .setSeed(training.getOrderSeed() == 0 ? spec.getSeed() : training.getOrderSeed())
        .setDataFingerprint(fingerprint).setTraining(training);
    for (TableSpec table : spec.getTablesList()) {
      if (table.hasOptimizer()) {
        job.addRates(TableRate.newBuilder().setTable(table.getName())
            .setLearningRate(table.getOptimizer().getLearningRate()).setSchedule(table.getOptimizer().getSchedule()));
      }
    }
    return job.build();
  }

  /** The rate of a table at a job's step, from 1: that of its schedule. */
  public static double learningRate(OptimizerSpec optimizer, long step) {
    ScheduleSpec schedule = optimizer.getSchedule();
    double rate = optimizer.getLearningRate();
    if (step < schedule.getWarmupSteps()) {
      return rate * step / schedule.getWarmupSteps();
    }
    double progress = schedule.getDecaySteps() <= 0 ? 1
        : Math.min(1, (double) (step - schedule.getWarmupSteps()) / schedule.getDecaySteps());
    double height;
    switch (schedule.getKind()) {
      case "linear" -> height = 1 - progress;
      case "cosine" -> height = 0.5 * (1 + Math.cos(Math.PI * progress));
      default -> {
        return rate;
      }
    }
    return rate * (schedule.getFinalFraction() + (1 - schedule.getFinalFraction()) * height);
  }
}

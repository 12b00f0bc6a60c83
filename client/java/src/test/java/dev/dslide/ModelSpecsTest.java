package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.dslide.errors.InvalidArgumentException;
import dev.dslide.v1.JobSpec;
import dev.dslide.v1.ModelSpec;
import dev.dslide.v1.OptimizerSpec;
import dev.dslide.v1.ScheduleSpec;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.api.Test;

class ModelSpecsTest {
  @ParameterizedTest
  @CsvSource({"constant,1,0.04", "constant,10,0.4", "constant,100,0.4", "linear,5,0.2", "linear,20,0.3",
      "linear,100,0.2", "cosine,20,0.3", "cosine,15,0.37071067811865475", "cosine,100,0.2"})
  void learningRate(String kind, long step, double expected) {
    var optimizer = OptimizerSpec.newBuilder().setLearningRate(0.4).setSchedule(ScheduleSpec.newBuilder().setKind(kind)
        .setWarmupSteps(10).setDecaySteps(20).setFinalFraction(0.5)).build();
    assertEquals(expected, ModelSpecs.learningRate(optimizer, step), 1e-12);
  }

  /**
   * Jobs of one model may differ in how they train it: what is left out has its default, not what the
   * model was registered with.
   */
  @Test
  void askedFor() {
    ModelSpec registered = ModelSpecs.parse("""
        {"name": "m", "training": {"batch_size": 64, "max_epochs": 5}, "tables": [
          {"rows": 7, "optimizer": {"kind": "sgd", "learning_rate": 0.5, "schedule": {"warmup_steps": 9}}},
          {"role": "memory"}]}""");
    ModelSpec got = ModelSpecs.askedFor(registered, ModelSpecs.parse("""
        {"training": {"max_epochs": 2}, "tables": [{"optimizer": {"schedule": {"kind": "cosine"}}}, {}]}"""));
    assertEquals(256, got.getTraining().getBatchSize());
    assertEquals(2, got.getTraining().getMaxEpochs());
    assertEquals(7, got.getTables(0).getRows());
    OptimizerSpec optimizer = got.getTables(0).getOptimizer();
    assertEquals("sgd", optimizer.getKind());
    assertEquals(0.001, optimizer.getLearningRate());
    assertEquals("cosine", optimizer.getSchedule().getKind());
    assertEquals(0, optimizer.getSchedule().getWarmupSteps());
    assertFalse(got.getTables(1).hasOptimizer());
  }

  @Test
  void fit() {
    ModelSpec spec = ModelSpecs.parse("""
        {"name": "m", "tables": [{"name": "input", "dim": 8, "bias_row": true},
          {"name": "d", "role": "dense", "rows": 4},
          {"name": "labels", "role": "head", "dim": 8}]}""");
    ModelSpec fitted = ModelSpecs.fit(spec, 100, 1_500_000);
    assertEquals(101, fitted.getTables(0).getRows());
    assertEquals(4, fitted.getTables(1).getRows());
    assertEquals(1_500_000, fitted.getTables(2).getRows());
    var head = fitted.getTables(2).getHead();
    assertEquals(12, head.getHash().getCodesPerTable());
    assertEquals(12, head.getHash().getNumTables());
    assertEquals(50, head.getHash().getRebuildEverySteps());
    assertEquals(320, head.getRecallEverySteps());
    assertEquals(fitted, ModelSpecs.fit(fitted, 100, 1_500_000));
    var e = assertThrows(InvalidArgumentException.class, () -> ModelSpecs.fit(fitted, 99, 1_500_000));
    assertTrue(e.getMessage().contains("has 101 rows, but the data (99 features, 1500000 labels) makes 100"),
        e.getMessage());
  }

  @Test
  void job() {
    ModelSpec spec = ModelSpecs.askedFor(ModelSpecs.parse("""
        {"name": "m", "seed": 5, "tables": [{"name": "input", "optimizer": {"kind": "sgd"}},
          {"name": "f", "role": "fusion"}]}
        """), ModelSpec.getDefaultInstance());
    JobSpec job = ModelSpecs.job("run", spec, 77, true, 3);
    assertEquals(16 * 256, job.getChunkSamples());
    assertEquals(5, job.getSeed());
    assertEquals(1, job.getRatesCount());
    assertEquals("input", job.getRates(0).getTable());
  }

  @Test
  void parseRefuses() {
    var e = assertThrows(InvalidArgumentException.class, () -> ModelSpecs.parse("{\"nam\": 1}"));
    assertTrue(e.getMessage().contains("this is no model spec: "), e.getMessage());
  }
}

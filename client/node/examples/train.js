// Trains a network with a hashed head on a dslide cluster and measures what they have learned.
//
//   node train.js --cluster 127.0.0.1:7000
//
// Without --data it makes a small set of points. With --data and --model it shares the job with
// trainers in other languages that are given the same files. The last line of stdout is JSON.

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import * as dslide from "dslide";
import { JobStage } from "dslide/v1";

// Small enough to be learned in seconds; a sample scores 200 rows of 1,000.
const SMALL_MODEL = {
  name: "small", activations: "bf16",
  tables: [
    { name: "input", role: "embedding", dim: 32, bias_row: true, optimizer: { learning_rate: 0.02 } },
    {
      name: "labels", role: "head", dim: 32, optimizer: { learning_rate: 0.02 },
      head: { max_active: 200 },
    },
  ],
  training: { batch_size: 128, max_epochs: 4, validation_fraction: 0.1 },
};

const FLAGS = /** @type {const} */ ({
  cluster: { type: "string", default: "127.0.0.1:7000" },
  data: { type: "string" }, model: { type: "string" },
  name: { type: "string" }, job: { type: "string" },
  ca: { type: "string" }, cert: { type: "string" }, key: { type: "string" },
});
const HELP = `Flags:
  --cluster HOST:PORT  the coordinator (127.0.0.1:7000)
  --data FILE          sparse text of points; without it a small set is made
  --model FILE         JSON of the model; without it a small one
  --name NAME          of the model; without it that of the file
  --job JOB            trainers of one job share its work; without it train- and the model's name
  --ca, --cert, --key  PEM files: authorities of the servers, own certificate and its key`;

/** Small random numbers of a seed, each in [0, bound). @param {number} seed */
function generator(seed) {
  let state = seed >>> 0;
  return (/** @type {number} */ bound) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * bound);
  };
}

/** Points that show some of their label's features. @returns {dslide.PointSet} */
function generated() {
  const [numFeatures, numLabels] = [1000, 1000];
  const draw = generator(1);
  const points = Array.from({ length: 9000 }, () => {
    const label = draw(numLabels);
    const own = generator(label + 1);
    const features = Array.from({ length: 6 }, () => own(numFeatures));
    const shown = [...new Set(features.filter(() => draw(4) > 0))]; // three of four
    const values = new Float32Array(shown.length).fill(1);
    return { ids: Uint32Array.from(shown).sort(), values, labels: Uint32Array.of(label) };
  });
  return { points, numFeatures, numLabels, fingerprint: 1n };
}

/** One trainer of a job. */
class Trainer {
  /** @param {dslide.Model} model @param {dslide.PointSet} points @param {string} job */
  constructor(model, points, job) {
    const { spec } = model;
    const training = spec.training;
    if (!training || training.transform === "tf_idf" || training.propensityStrength) {
      throw new dslide.InvalidArgumentError(
        `model "${model.name}" has tf_idf or propensities, which this example does not know: train ` +
          "it with dslide train",
      );
    }
    this.model = model;
    this.points = points.points;
    this.network = dslide.networkOf(spec);
    this.training = training;
    this.transform = training.transform ?? "l2";
    this.batchSize = Number(training.batchSize);
    this.split = new dslide.TrainingSplit(
      points.points.length, spec.seed ?? 0n, training.validationFraction ?? 0,
      Number(training.validationMaxSamples ?? 0n),
    );
    const { numTraining, numValidation } = this.split;
    this.job = dslide.jobOf(job, spec, numTraining, numValidation > 0, points.fingerprint);
    this.step = 0; // of this trainer's own
    this.samples = 0;
    this.lastLoss = 0;
  }

  /** Does its share of the job, until that has ended. @param {dslide.Client} cluster */
  async train(cluster) {
    const start = performance.now();
    const steps = await this.model.steps();
    const leases = cluster.leases(this.job, { clientId: steps.clientId });
    try {
      for await (const work of leases) {
        if (work.kind === "chunk") work.finish(await this.chunk(steps, work.lease));
        else if (work.kind === "evaluation") work.finish(await this.evaluate(work.lease));
        else work.finish(await this.complete(work.lease));
      }
    } finally {
      await steps.close();
    }
    if (this.step === 0) {
      console.error(`NOTE: nothing was left to do of job ${this.job.job}; another run has another --job`);
    }
    return {
      model: this.model.name, job: this.job.job, steps: this.step, samples: this.samples,
      last_loss: this.lastLoss, best_epoch: Number(leases.result?.bestEpoch ?? -1n),
      best_p_at_1: leases.result?.bestMetric ?? 0, seconds: (performance.now() - start) / 1000,
    };
  }

  /**
   * The places in the data of those points with labels: others teach nothing.
   * @param {number} count @param {(position: number) => number} placeAt
   */
  places(count, placeAt) {
    const places = Array.from({ length: count }, (_, i) => placeAt(i));
    return places.filter((place) => this.point(place).labels.length > 0);
  }

  /** @param {number} place */
  point(place) {
    const point = this.points[place];
    if (point) return point;
    throw new dslide.InternalError(`the data has no point ${place}`);
  }

  /**
   * Trains the points at some positions of an epoch's order.
   * @param {dslide.Steps} steps @param {Extract<dslide.Lease, { kind: "chunk" }>["lease"]} lease
   */
  async chunk(steps, lease) {
    const [epoch, begin] = [Number(lease.epoch), Number(lease.first)];
    const end = begin + Number(lease.count);
    const order = new dslide.EpochOrder(this.split.numTraining, this.job.seed, epoch);
    const { inputDropout, hiddenDropout } = this.training;
    const dropout = new dslide.Dropout(this.job.seed, epoch, inputDropout ?? 0, hiddenDropout ?? 0);
    const done = { lossSum: 0, samples: 0 };
    for (let first = begin; first < end; first += this.batchSize) {
      const count = Math.min(this.batchSize, end - first);
      const places = this.places(count, (i) => this.split.trainingPoint(order.pointAt(first + i)));
      if (places.length === 0) continue;
      const number = Math.floor((epoch * this.split.numTraining + first) / this.batchSize) + 1;
      done.lossSum += await this.trainBatch(steps, number, places, dropout);
      done.samples += places.length;
    }
    this.samples += done.samples;
    if (done.samples > 0) this.lastLoss = done.lossSum / done.samples;
    return done;
  }

  /**
   * One step, which has a number in the job; the sum of the losses. The network is hidden = max(sum
   * of feature rows, 0), then hidden = max(W hidden + b, 0) for each dense layer, each with its
   * dropout, and logits = head hidden.
   * @param {dslide.Steps} steps @param {number} number @param {number[]} places
   * @param {dslide.Dropout} dropout
   */
  async trainBatch(steps, number, places, dropout) {
    const { embedding, dense, head, bf16, numFeatures, numLabels } = this.network;
    const [table, labelTable] = [embedding.name ?? "", head.name ?? ""];
    const batch = places.map((place) => this.point(place));
    const [size, step] = [batch.length, ++this.step];
    const asSent = bf16 ? dslide.bf16Matrix : dslide.matrix;

    // The sums of the features' rows, over all shards.
    const scaled = dslide.transformed(dslide.batchOf(batch, numFeatures, "points"), this.transform);
    const kept = dropout.features(scaled, places);
    const features = embedding.biasRow ? dslide.withBiasRow(kept, numFeatures) : kept;
    const inputs = this.model.slice(table, features);
    const sums = await steps.run(step, step, "embedForward", inputs.map((part) => ({
      table, batch: size,
      packedRowIds: dslide.packIds(part.offsets, part.ids), values: dslide.bytesOf(part.values),
    })));
    let hidden = dslide.addParts(sums.map(partialOf), size, Number(embedding.dim));
    dropout.units(0, places, dslide.rectify(hidden));

    // The dense layers are computed here, with the weights of all shards. Only what the head gets is
    // rounded.
    const layers = await Promise.all(dense.map(async (layer) => {
      const question = { table: layer.name ?? "" };
      const answers = await steps.run(step, step, "denseGather", inputs.map(() => question));
      return dslide.joinDense(layer, answers.map(({ rows }) => rows));
    }));
    const inputsOf = layers.map((layer, i) => {
      const input = hidden;
      hidden = dropout.units(i + 1, places, dslide.denseForward(layer, input));
      return input;
    });
    if (bf16) hidden = dslide.roundToBf16(hidden);

    // Each shard selects rows by fingerprints and answers its part of the loss.
    const ofLabels = dslide.batchOf(batch.map((point) => ({ ids: point.labels })), numLabels, "labels");
    const labels = this.model.slice(labelTable, ofLabels);
    const prints = this.model.hashFamily(labelTable)?.hash(hidden) ?? new Uint32Array();
    const loss = head.head?.loss === "sigmoid" ? "sigmoid" : "softmax";
    const targets = Float32Array.from(batch, (point) => loss === "softmax" ? 1 / point.labels.length : 1);
    const width = hidden.length / size;
    const shown = asSent(size, width, hidden);
    const forward = await steps.run(step, step, "headForward", labels.map((part) => ({
      table: labelTable, hidden: shown, fingerprints: dslide.bytesOf(prints),
      packedLabelIds: dslide.packIds(part.offsets, part.ids), labelTargets: dslide.bytesOf(targets),
    })));
    const combined = dslide.combineLoss(loss, forward, labels, targets);

    const backward = await steps.run(step, step, "headBackward", labels.map(() => ({
      table: labelTable, logPartitions: dslide.bytesOf(combined.logPartitions),
      scale: 1 / size, learningRate: dslide.learningRate(head.optimizer, number),
    })));
    let gradient = dslide.addParts(backward.map(gradientOf), size, width);
    gradient = dslide.maskGradient(hidden, gradient, dropout.scale);
    for (const [i, layer] of [...layers.entries()].reverse()) {
      const input = inputsOf[i] ?? new Float32Array();
      const below = dslide.denseBackward(layer, input, gradient);
      const learningRate = dslide.learningRate(dense[i]?.optimizer, number);
      const parts = dslide.denseParts(layer, below.rows);
      await steps.run(step, step, "denseScatter", parts.map((gradients) => (
        gradients && { table: dense[i]?.name ?? "", gradients, learningRate }
      )));
      gradient = dslide.maskGradient(input, below.inputs, dropout.scale);
    }
    const change = asSent(size, Number(embedding.dim), gradient);
    await steps.run(step, step, "embedBackward", inputs.map(() => ({
      table, gradient: change, learningRate: dslide.learningRate(embedding.optimizer, number),
    })));
    return combined.sum;
  }

  /**
   * Measures P@1 on the held-out points, and keeps the rows when they are the best so far.
   * @param {Extract<dslide.Lease, { kind: "evaluation" }>["lease"]} lease
   */
  async evaluate(lease) {
    const { numValidation } = this.split;
    let [hits, labelled] = [0, 0];
    for (let first = 0; first < numValidation; first += 256) {
      const count = Math.min(256, numValidation - first);
      const places = this.places(count, (i) => this.split.validationPoint(first + i));
      if (places.length === 0) continue;
      const batch = places.map((place) => this.point(place));
      const best = await this.model.predict(batch, { k: 1 });
      hits += best.filter(([top], i) => top && batch[i]?.labels.includes(top.id)).length;
      labelled += batch.length;
    }
    const metric = hits / Math.max(labelled, 1);
    console.error(`epoch ${lease.epoch + 1n}: P@1 ${metric.toFixed(4)} on ${labelled} held-out points`);
    if (metric > lease.metricToBeat) {
      try {
        await this.model.saveCheckpoint(dslide.bestCheckpoint(this.job.job));
      } catch (error) {
        if (!(error instanceof dslide.FailedPreconditionError)) throw error;
        console.error(`NOTE: the best epoch cannot be kept: ${error.message}`);
      }
    }
    return { metric };
  }

  /**
   * Restores the rows of the best epoch; the other trainers wait for that.
   * @param {Extract<dslide.Lease, { kind: "stage" }>["lease"]} lease
   */
  async complete(lease) {
    if (lease.stage !== JobStage.COMPLETION || lease.bestEpoch < 0n) return { bestRestored: false };
    try {
      await this.model.restoreCheckpoint(dslide.bestCheckpoint(this.job.job));
      return { bestRestored: true };
    } catch (error) {
      const gone =
        error instanceof dslide.NotFoundError || error instanceof dslide.FailedPreconditionError;
      if (!gone) throw error;
      console.error(`NOTE: the best epoch was not kept: ${error.message}`);
      return { bestRestored: false };
    }
  }
}

/** @param {dslide.ResultOf<"embedForward">} result */
function partialOf({ partial }) {
  if (partial) return partial;
  throw new dslide.InternalError("a shard answered no sums");
}

/** @param {dslide.ResultOf<"headBackward">} result */
function gradientOf({ hiddenGradient }) {
  if (hiddenGradient) return hiddenGradient;
  throw new dslide.InternalError("a shard answered no gradient");
}

async function main() {
  const { values } = parsed();
  const points = values.data ? await dslide.readPoints(values.data) : generated();
  const asked = values.model ? JSON.parse(readFileSync(values.model, "utf8")) : SMALL_MODEL;
  const spec = dslide.fitSpec(asked, points.numFeatures, points.numLabels);
  if (values.name) spec.name = values.name;
  const job = values.job ?? `train-${spec.name}`;
  const { ca, cert, key } = values;
  const tls = ca && cert && key ? { tls: { ca, cert, key } } : {};
  // A trainer outlives the restart of a server, but a wrong address is told soon.
  await (await dslide.connect(values.cluster, { patienceMs: 30_000, ...tls })).close();
  const patient = { job, timeoutMs: 300_000, patienceMs: 120_000, ...tls };
  const cluster = await dslide.connect(values.cluster, patient);
  try {
    const trainer = new Trainer(await cluster.createModel(spec), points, job);
    console.log(JSON.stringify(await trainer.train(cluster)));
  } finally {
    await cluster.close();
  }
}

function parsed() {
  try {
    return parseArgs({ options: FLAGS });
  } catch (error) {
    throw new dslide.InvalidArgumentError(`${error instanceof Error ? error.message : error}\n${HELP}`);
  }
}

main().catch((/** @type {unknown} */ error) => {
  const known = error instanceof dslide.DslideError;
  console.error(known ? `error: ${error.code} ${error.reason || "-"}: ${error.message}` : error);
  process.exitCode = 1;
});

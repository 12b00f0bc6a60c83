// Learns a small generated set on a cluster: embedding forward, hashing, head forward, the loss over
// all shards, head backward, embedding backward. Several of these, or trainers in other languages
// that read the same points, may share one job.
//
//   node train.js --address 127.0.0.1:7000 [--ca FILE --cert FILE --key FILE] [--job NAME]
//
// The last line of stdout is one JSON object.

import { parseArgs } from "node:util";
import * as dslide from "dslide";

const FEATURES = 1000;
const LABELS = 1000;
const DIM = 32;
const BATCH = 128;
const EPOCHS = 4;
const TRAIN_POINTS = 8000;
const TEST_POINTS = 1000;
const OWN_FEATURES = 6; // of each label
const SEED = 7n;
const LEARNING_RATE = 0.02;

/** @typedef {{ ids: number[], label: number }} Point */

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

/** Points that show some of their label's features. @param {number} seed @param {number} count */
function points(seed, count) {
  const draw = generator(seed);
  return Array.from({ length: count }, () => {
    const label = draw(LABELS);
    const own = generator(label + 1);
    const features = Array.from({ length: OWN_FEATURES }, () => own(FEATURES));
    const shown = features.filter(() => draw(4) > 0); // three of four
    return /** @type {Point} */ ({ ids: [...new Set(shown)], label });
  });
}

/**
 * One step of a batch of points; the sum of their losses.
 * @param {dslide.Model} model @param {dslide.Steps} steps @param {number} step @param {Point[]} batch
 */
async function trainBatch(model, steps, step, batch) {
  const { embedding, head, bf16, numFeatures } = dslide.networkOf(model.spec);
  const [table, labelTable] = [embedding.name ?? "", head.name ?? ""];
  const [size, learningRate] = [batch.length, LEARNING_RATE];

  // The sums of the features' rows, over all shards; then what the activation makes of them.
  const transform = model.spec.training?.transform ?? "l2";
  const features = dslide.transformed(dslide.batchOf(batch, numFeatures, "points"), transform);
  const inputs = model.slice(table, dslide.withBiasRow(features, numFeatures));
  const sums = await steps.run(step, step, "embedForward", inputs.map((part) => ({
    table, batch: size,
    packedRowIds: dslide.packIds(part.offsets, part.ids), values: dslide.bytesOf(part.values),
  })));
  let hidden = dslide.rectify(dslide.addParts(sums.map(partialOf), size, DIM));
  if (bf16) hidden = dslide.roundToBf16(hidden);

  // Each shard selects rows by fingerprints and answers its part of the softmax.
  const ofLabels = dslide.batchOf(batch.map(({ label }) => ({ ids: [label] })), LABELS, "labels");
  const labels = model.slice(labelTable, ofLabels);
  const prints = model.hashFamily(labelTable)?.hash(hidden) ?? new Uint32Array();
  const targets = new Float32Array(size).fill(1); // 1 / number of the sample's labels
  const forward = await steps.run(step, step, "headForward", labels.map((part) => ({
    table: labelTable, hidden: dslide.matrix(size, DIM, hidden),
    fingerprints: dslide.bytesOf(prints),
    packedLabelIds: dslide.packIds(part.offsets, part.ids), labelTargets: dslide.bytesOf(targets),
  })));
  const loss = dslide.combineLoss("softmax", forward, labels, targets);

  const backward = await steps.run(step, step, "headBackward", labels.map(() => ({
    table: labelTable, logPartitions: dslide.bytesOf(loss.logPartitions),
    scale: 1 / size, learningRate,
  })));
  const gradient = dslide.addParts(backward.map(gradientOf), size, DIM);
  const masked = dslide.matrix(size, DIM, dslide.maskGradient(hidden, gradient));
  await steps.run(step, step, "embedBackward", inputs.map(() => ({
    table, gradient: masked, learningRate,
  })));
  return loss.sum;
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

/** The share of points whose best label is theirs. @param {dslide.Model} model @param {boolean} hashed */
async function precision(model, hashed) {
  const test = points(2, TEST_POINTS);
  const best = await model.predict(test, { k: 1, hashed });
  return best.filter(([first], i) => first?.id === test[i]?.label).length / test.length;
}

/** @param {dslide.Client} cluster @param {string} job */
async function train(cluster, job) {
  const optimizer = { learning_rate: LEARNING_RATE };
  const model = await cluster.createModel({
    name: job, seed: "7", activations: "bf16",
    tables: [
      { name: "input", role: "embedding", rows: FEATURES + 1, dim: DIM, bias_row: true, optimizer },
      { name: "labels", role: "head", rows: LABELS, dim: DIM, optimizer, head: { max_active: 200 } },
    ],
    training: { batch_size: BATCH, max_epochs: EPOCHS },
  });
  const data = points(1, TRAIN_POINTS);
  const steps = await model.steps();
  let [step, lossSum, samples] = [0, 0, 0];
  try {
    const leases = cluster.leases({
      job, model: job, samplesPerEpoch: BigInt(data.length), chunkSamples: BigInt(16 * BATCH),
      maxEpochs: BigInt(EPOCHS), seed: SEED, ...training(model),
    }, { clientId: steps.clientId });
    for await (const work of leases) {
      if (work.kind !== "chunk") throw new Error(`the job asks for no ${work.kind}`);
      const [first, count] = [Number(work.lease.first), Number(work.lease.count)];
      const order = new dslide.EpochOrder(data.length, SEED, Number(work.lease.epoch));
      let chunkLoss = 0;
      for (let at = first; at < first + count; at += BATCH) {
        const size = Math.min(BATCH, first + count - at);
        const batch = Array.from({ length: size }, (_, i) => data[order.pointAt(at + i)]);
        chunkLoss += await trainBatch(model, steps, ++step, /** @type {Point[]} */ (batch));
      }
      work.finish({ lossSum: chunkLoss, samples: count });
      [lossSum, samples] = [lossSum + chunkLoss, samples + count];
      console.error(`epoch ${work.lease.epoch}: loss ${(chunkLoss / count).toFixed(3)}`);
    }
  } finally {
    await steps.close();
  }
  return {
    model: job, shards: cluster.numShards, steps: step, samples, loss: lossSum / samples,
    p_at_1: await precision(model, false), p_at_1_hashed: await precision(model, true),
  };
}

/** What trainers of one job agree on beside the points. @param {dslide.Model} model */
function training({ spec }) {
  const rates = spec.tables.map(({ name, optimizer }) => ({
    table: name ?? "", learningRate: LEARNING_RATE,
    ...(optimizer?.schedule ? { schedule: optimizer.schedule } : {}),
  }));
  return { rates, ...(spec.training ? { training: spec.training } : {}) };
}

async function main() {
  const { values } = parseArgs({
    options: {
      address: { type: "string", default: "127.0.0.1:7000" },
      job: { type: "string", default: "node-example" },
      ca: { type: "string" }, cert: { type: "string" }, key: { type: "string" },
    },
  });
  const { ca, cert, key } = values;
  const cluster = await dslide.connect(values.address, {
    job: values.job,
    ...(ca && cert && key ? { tls: { ca, cert, key } } : {}),
  });
  try {
    console.log(JSON.stringify(await train(cluster, values.job)));
  } finally {
    await cluster.close();
  }
}

main().catch((/** @type {unknown} */ error) => {
  const known = error instanceof dslide.DslideError;
  console.error(known ? `error: ${error.code} ${error.reason || "-"}: ${error.message}` : error);
  process.exitCode = 1;
});

/**
 * Reads, changes, trains and asks networks with very wide layers on a dslide cluster. `connect`
 * reaches a cluster, `connectPredictor` a server of predictions. What goes wrong is a `DslideError`.
 * @module
 */

export {
  bf16Matrix,
  bytesOf,
  floats,
  fromBf16,
  fromMatrix,
  matrix,
  packIds,
  toBf16,
  u32s,
} from "./arrays.js";
export { Client, connect, Model } from "./client.js";
export {
  denseBackward,
  denseForward,
  type DenseLayer,
  denseParts,
  type DenseRows,
  joinDense,
} from "./dense_layer.js";
export { Dropout } from "./dropout.js";
export * from "./errors.js";
export { firstRows } from "./first_rows.js";
export { type HashFamily, hashFamily, type HashSettings, resolvedHash } from "./hashing.js";
export { type JobSpecInit } from "./jobs.js";
export { type ChunkReport, type Lease, Leases } from "./leases.js";
export { type SpecLike } from "./models.js";
export {
  addParts,
  combineLoss,
  type Loss,
  maskGradient,
  type Network,
  networkOf,
  rectify,
  roundToBf16,
} from "./network.js";
export { EpochOrder, TrainingSplit } from "./order.js";
export { parsePoints, type Point, type PointSet, readPoints } from "./points.js";
export { connectPredictor, type PredictOptions, Predictor, type Query } from "./predictor.js";
export { type GatherOptions, type Rows, type ScatterOptions } from "./rows.js";
export { type Batch, batchOf, type Sample, sliceBatch, transformed, withBiasRow } from "./samples.js";
export { type ResultOf, Steps } from "./steps.js";
export { type Scored, type TopKOptions } from "./top_k.js";
export { bestCheckpoint, fitSpec, jobOf, learningRate } from "./training.js";
export { type CallOptions, type ConnectOptions, type Tls } from "./transport.js";
export { version } from "./version.js";

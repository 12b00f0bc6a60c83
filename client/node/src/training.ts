// What trainers in all languages make of the same data, model and job.

import { clone, create } from "@bufbuild/protobuf";
import { InvalidArgumentError } from "./errors.js";
import { type JobSpec, JobSpecSchema } from "./gen/dslide/v1/coordinator_pb.js";
import {
  HashSpecSchema,
  HeadSpecSchema,
  type ModelSpec,
  ModelSpecSchema,
  type OptimizerSpec,
  TableRateSchema,
  type TableSpec,
} from "./gen/dslide/v1/model_pb.js";
import { resolvedHash } from "./hashing.js";
import { parseSpec, type SpecLike } from "./models.js";

const BATCHES_PER_CHUNK = 16n;

/**
 * A spec for data of so many features and labels: with the rows of embedding and head, and with the
 * settings of hashing that the rows decide, so that a kept model stays what it is.
 */
export function fitSpec(spec: SpecLike, features: number, labels: number): ModelSpec {
  const fitted = clone(ModelSpecSchema, parseSpec(spec));
  for (const table of fitted.tables) {
    const role = table.role ?? "embedding";
    if (role !== "embedding" && role !== "head") continue;
    const bias = table.biasRow ? 1 : 0;
    const rows = BigInt(role === "head" ? labels : features + bias);
    if ((table.rows ?? 0n) !== 0n && table.rows !== rows) {
      throw new InvalidArgumentError(
        `table "${table.name ?? ""}" of the model has ${table.rows} rows, but the data (${features} ` +
          `features, ${labels} labels) makes ${rows}; leave rows out to take it from the data`,
      );
    }
    table.rows = rows;
    if (role === "head") fitHead(table, rows);
  }
  return fitted;
}

function fitHead(table: TableSpec, rows: bigint): void {
  const head = (table.head ??= create(HeadSpecSchema));
  const hash = (head.hash ??= create(HashSpecSchema));
  const { codesPerTable, numTables } = resolvedHash(hash, Number(rows));
  hash.codesPerTable = BigInt(codesPerTable);
  hash.numTables = BigInt(numTables);
  const millions = rows / 1_000_000n;
  if (!hash.rebuildEverySteps) hash.rebuildEverySteps = 50n * (millions > 1n ? millions : 1n);
  if (!head.recallEverySteps) head.recallEverySteps = 20n * (1n + rows / 100_000n);
}

/**
 * The job that trains a model on so many points, as `dslide train` says it.
 *
 * @param spec with every field, as a Model has it
 * @param points of one epoch
 * @param evaluate whether the coordinator asks for a measurement after each epoch
 * @param fingerprint any number that all trainers compute in the same way from the data
 */
export function jobOf(
  job: string,
  spec: ModelSpec,
  points: number,
  evaluate: boolean,
  fingerprint: bigint,
): JobSpec {
  const { training } = spec;
  const number = (field: bigint | undefined): bigint => field ?? 0n;
  const rates = spec.tables.flatMap(({ name, optimizer }) =>
    optimizer ? [create(TableRateSchema, { table: name ?? "", ...rateOf(optimizer) })] : [],
  );
  return create(JobSpecSchema, {
    job,
    model: spec.name ?? "",
    samplesPerEpoch: BigInt(points),
    chunkSamples: number(training?.chunkSamples) || BATCHES_PER_CHUNK * number(training?.batchSize),
    maxEpochs: number(training?.maxEpochs),
    patienceEpochs: number(training?.patienceEpochs),
    evaluate,
    seed: number(training?.orderSeed) || number(spec.seed),
    dataFingerprint: fingerprint,
    rates,
    ...(training ? { training } : {}),
  });
}

function rateOf({ learningRate, schedule }: OptimizerSpec) {
  return { learningRate: learningRate ?? 0, ...(schedule ? { schedule } : {}) };
}

/** The rate of a table at a job's step, from 1: that of its schedule. */
export function learningRate(optimizer: OptimizerSpec | undefined, step: number): number {
  const rate = optimizer?.learningRate ?? 0;
  const schedule = optimizer?.schedule;
  const warmup = Number(schedule?.warmupSteps ?? 0n);
  const decay = Number(schedule?.decaySteps ?? 0n);
  if (step < warmup) return (rate * step) / warmup;
  const progress = decay > 0 ? Math.min(1, (step - warmup) / decay) : 1;
  let height: number;
  if (schedule?.kind === "linear") height = 1 - progress;
  else if (schedule?.kind === "cosine") height = 0.5 * (1 + Math.cos(Math.PI * progress));
  else return rate;
  const last = schedule.finalFraction ?? 0;
  return rate * (last + (1 - last) * height);
}

/** The checkpoint of a job's best epoch, of at most 64 letters; trainers of all languages name it so. */
export function bestCheckpoint(job: string): string {
  const name = `best-${job}`;
  if (name.length <= 64) return name;
  let hash = 0x811c9dc5; // FNV-1a
  for (const letter of job) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193) >>> 0;
  return `best-${job.slice(0, 50)}-${hash.toString(16).padStart(8, "0")}`;
}

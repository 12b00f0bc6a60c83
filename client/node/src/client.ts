// A cluster and its models, as programs use them.

import { type Connection } from "./connection.js";
import { Connection as Opened } from "./connection.js";
import { InvalidArgumentError } from "./errors.js";
import {
  type GetClusterMapResponse,
  type GetClusterStatusResponse,
  type JobStatus,
} from "./gen/dslide/v1/coordinator_pb.js";
import { type ModelSpec } from "./gen/dslide/v1/model_pb.js";
import { type DescribeModelResponse } from "./gen/dslide/v1/shard_pb.js";
import { type HashFamily } from "./hashing.js";
import * as jobs from "./jobs.js";
import { Leases } from "./leases.js";
import * as models from "./models.js";
import * as operations from "./operations.js";
import * as rows from "./rows.js";
import { type Batch, type Sample, sliceBatch } from "./samples.js";
import { Steps } from "./steps.js";
import * as predictions from "./top_k.js";
import { type CallOptions, type ConnectOptions, Settings } from "./transport.js";

/** A model of a cluster: its spec, and the rows of its tables. Made by `Client.model`. */
export class Model {
  constructor(
    private readonly connection: Connection,
    /** With every field. */
    readonly spec: ModelSpec,
  ) {}

  get name(): string {
    return this.spec.name!;
  }

  /** Rows of a table by id, in the order asked for; ids may repeat. */
  gather(table: string, ids: ArrayLike<number>, options?: rows.GatherOptions): Promise<rows.Rows> {
    return rows.gather(this.connection, this.name, table, ids, options);
  }

  /**
   * Changes rows by id, each shard's part whole or not at all, and never twice. Values are f32
   * [ids.length, dim], row-major; those of equal ids are added up ("assign" refuses them).
   *
   * Scatters of one client are applied in the order of these calls. When an error's `applied` is
   * undefined, nobody knows whether a shard that does not answer has applied its part.
   */
  scatter(
    table: string,
    ids: ArrayLike<number>,
    values: ArrayLike<number>,
    options?: rows.ScatterOptions,
  ): Promise<void> {
    return rows.scatter(this.connection, this.name, table, ids, values, options);
  }

  /** The best rows of a head for hidden vectors f32 [batch, dim], best first. */
  topK(
    table: string,
    hidden: ArrayLike<number>,
    options?: predictions.TopKOptions,
  ): Promise<predictions.Scored[][]> {
    return predictions.topK(this.connection, this.name, table, hidden, options);
  }

  /** The input of the head for features as the data has them, f32 [samples, dim]. */
  hidden(samples: readonly Sample[], options?: CallOptions): Promise<Float32Array> {
    return predictions.hiddenOf(this.connection, this.name, samples, options);
  }

  /** The best labels of samples, from the shards themselves; no `dslide serve` is needed. */
  predict(
    samples: readonly Sample[],
    options?: predictions.TopKOptions,
  ): Promise<predictions.Scored[][]> {
    return predictions.predictLabels(this.connection, this.name, samples, options);
  }

  /** What each shard holds, by ordinal. */
  describe(options?: CallOptions & { digests?: boolean }): Promise<DescribeModelResponse[]> {
    return models.describeModel(this.connection, this.name, options);
  }

  /** How a head is hashed; undefined: every row is active. */
  hashFamily(table: string): HashFamily | undefined {
    return models.familyOf(this.connection, this.name, this.#table(table));
  }

  /** Each shard's part of every sample of a table's rows, by ordinal. */
  slice(table: string, batch: Batch): Batch[] {
    const owners = this.connection.owners(this.#table(table));
    return sliceBatch(owners, this.connection.shards.length, batch);
  }

  /** Opens a trainer's streams of operations. */
  steps(options: CallOptions = {}): Promise<Steps> {
    return Steps.open(this.connection, this.name, options);
  }

  saveCheckpoint(name: string, options?: CallOptions): Promise<{ rows: bigint; bytes: bigint }> {
    return operations.saveCheckpoint(this.connection, this.name, name, options);
  }

  restoreCheckpoint(name: string, options?: CallOptions): Promise<bigint> {
    return operations.restoreCheckpoint(this.connection, this.name, name, options);
  }

  #table(name: string) {
    const table = this.spec.tables.find((known) => known.name === name);
    if (table) return table;
    const names = this.spec.tables.map((known) => known.name).join(", ");
    throw new InvalidArgumentError(`model "${this.name}" has no table "${name}"; it has: ${names}`, {
      reason: "UNKNOWN_TABLE",
    });
  }
}

/** A cluster. Made by `connect`; closed by `close`. */
export class Client {
  constructor(private readonly connection: Connection) {}

  get numShards(): number {
    return this.connection.shards.length;
  }

  /** Closes this client at the shards that have heard of it, and all connections. */
  close(): Promise<void> {
    return this.connection.close();
  }

  /** Where the shards are and who owns which slots, as the coordinator says now. */
  clusterMap(options?: CallOptions): Promise<GetClusterMapResponse> {
    return this.connection.clusterMap(options);
  }

  /** Shards, models, jobs and checkpoints in one answer. */
  status(options: CallOptions = {}): Promise<GetClusterStatusResponse> {
    return jobs.status(this.connection, options);
  }

  /** A model of the cluster. NotFoundError naming those that there are. */
  async model(name: string, options: CallOptions = {}): Promise<Model> {
    return new Model(this.connection, await models.model(this.connection, name, options));
  }

  /**
   * Creates a model on all shards; an equal one that is there is left as it is. `spec` is what the
   * JSON files of docs/models have; every table has rows. FailedPreconditionError when a different
   * one has the name.
   */
  async createModel(spec: models.SpecLike, options: CallOptions = {}): Promise<Model> {
    return new Model(this.connection, await models.createModel(this.connection, spec, options));
  }

  listModels(options: CallOptions = {}): Promise<ModelSpec[]> {
    return models.listModels(this.connection, options);
  }

  /** Drops a model and its rows, everywhere. */
  dropModel(name: string, options: CallOptions = {}): Promise<void> {
    return models.dropModel(this.connection, name, options);
  }

  /** All jobs that the cluster knows. */
  async listJobs(options: CallOptions = {}): Promise<JobStatus[]> {
    return (await jobs.status(this.connection, options)).jobs;
  }

  /** How far a job is. NotFoundError naming those that there are. */
  describeJob(job: string, options: CallOptions = {}): Promise<JobStatus> {
    return jobs.jobStatus(this.connection, job, options);
  }

  /** Ends a job: its trainers end well, and what was trained stays. */
  cancelJob(job: string, options: CallOptions = {}): Promise<JobStatus> {
    return jobs.cancelJob(this.connection, job, options);
  }

  /** Forgets a job that has ended, so that one of its name begins anew. */
  deleteJob(job: string, options: CallOptions = {}): Promise<void> {
    return jobs.deleteJob(this.connection, job, options);
  }

  /**
   * The lease loop of a trainer; the job is opened, or joined, when the loop begins. `clientId` is
   * that of the trainer's steps: a shard's errors and the coordinator's leases name the same client.
   */
  leases(
    job: jobs.JobSpecInit & { job: string },
    options: CallOptions & { clientId?: Uint8Array } = {},
  ): Leases {
    const { clientId, ...rest } = options;
    return new Leases(this.connection, job, clientId ?? this.connection.clientId, rest);
  }
}

/**
 * Connects to the coordinator at `address` ("host:port" or "unix:PATH") and to its shards.
 *
 * UnavailableError: nobody answers, or shards are missing. FailedPreconditionError: the cluster is of
 * another version. InvalidArgumentError: a malformed address, or files that are no certificates.
 */
export async function connect(
  address = "127.0.0.1:7000",
  options: ConnectOptions = {},
): Promise<Client> {
  const { signal } = options;
  return new Client(await Opened.open(address, new Settings(options), { signal }));
}

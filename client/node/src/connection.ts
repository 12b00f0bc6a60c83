// The connections of one client to a cluster's servers, and what it knows of the cluster.

import { randomBytes } from "node:crypto";
import { u16s } from "./arrays.js";
import {
  DeadlineExceededError,
  FailedPreconditionError,
  InternalError,
  UnavailableError,
  UnimplementedError,
} from "./errors.js";
import { CoordinatorService, type GetClusterMapResponse } from "./gen/dslide/v1/coordinator_pb.js";
import { type ModelSpec, type TableSpec } from "./gen/dslide/v1/model_pb.js";
import { ShardService } from "./gen/dslide/v1/shard_pb.js";
import { type HashFamily } from "./hashing.js";
import { ScatterQueue } from "./scatter_queue.js";
import { type CallOptions, Peer, type Settings } from "./transport.js";
import { version } from "./version.js";

const SHARD_REMEDY =
  "see whether the shard runs (dslide status, its log), and start it again with its data directory";

/** What every operation needs. The operations themselves are functions of it, by noun. */
export class Connection {
  readonly coordinator: Peer;
  readonly clientId = randomBytes(16);
  shards: Peer[] = [];
  scatters: ScatterQueue[] = [];
  /** As it was when the connection was opened. */
  map!: GetClusterMapResponse;
  /** Of models that were opened. */
  readonly specs = new Map<string, ModelSpec>();
  /** Of hashed heads, by model and table. */
  readonly families = new Map<string, HashFamily>();
  /** By number of slots, of `map`. */
  readonly #owners = new Map<number, Uint16Array>();
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(
    address: string,
    readonly settings: Settings,
  ) {
    this.coordinator = new Peer(
      settings,
      address,
      "coordinator",
      `start the coordinator (dslide up, or dslide-coordinator --listen ${address}), or name the ` +
        "address of one that runs",
    );
  }

  static async open(address: string, settings: Settings, options: CallOptions): Promise<Connection> {
    const connection = new Connection(address, settings);
    try {
      await connection.#open(options);
    } catch (error) {
      await connection.close();
      throw error;
    }
    return connection;
  }

  async #open(options: CallOptions): Promise<void> {
    const name = this.coordinator.name;
    try {
      this.map = await this.clusterMap(options);
    } catch (error) {
      if (!(error instanceof UnimplementedError)) throw error;
      throw new FailedPreconditionError(
        `${name} does not speak dslide.v1: it is of another version than this client ` +
          `(${version}), or no coordinator at all (${error.message})`,
      );
    }
    if (this.map.shards.some(({ shardId }, place) => shardId !== place)) {
      throw new InternalError(`${name} answered a map that lacks shards`);
    }
    this.#keepOwners(this.map);
    for (const { shardId, address } of this.map.shards) {
      this.shards.push(new Peer(this.settings, address, `shard ${shardId}`, SHARD_REMEDY));
    }
    this.scatters = this.shards.map(
      (shard) => new ScatterQueue(shard, this.settings, this.clientId, this.map.topologyVersion),
    );
    await Promise.all(this.shards.map((shard) => this.#checkVersion(shard, options)));
  }

  async #checkVersion(shard: Peer, { signal }: CallOptions): Promise<void> {
    const timeoutMs = Math.min(this.settings.timeoutMs, this.settings.patienceMs);
    let theirs: string;
    try {
      const info = await shard.once(ShardService.method.getServerInfo, {}, { signal, timeoutMs });
      theirs = info.version;
    } catch (error) {
      // A shard that is away is told of by the calls that need it.
      if (error instanceof UnavailableError || error instanceof DeadlineExceededError) return;
      throw error;
    }
    const minor = (full: string): string => full.split(".", 2).join(".");
    if (minor(theirs) !== minor(version)) {
      throw new FailedPreconditionError(
        `${shard.name} is of version ${theirs}, this client of ${version}: install the client of ` +
          `the cluster's version (npm install dslide@~${minor(theirs)}.0)`,
      );
    }
  }

  /** Closes this client at the shards that have heard of it, and all connections. */
  async close(): Promise<void> {
    await Promise.all(this.scatters.map((queue) => queue.close()));
    for (const peer of [...this.shards, this.coordinator]) peer.close();
    this.scatters = [];
    this.shards = [];
  }

  /** Runs `work` when all that was given before has ended: scatters keep their order. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work);
    this.#turn = mine.catch(() => undefined);
    return mine;
  }

  /** Where the shards are and who owns which slots, as the coordinator says now. */
  clusterMap(options: CallOptions = {}, numSlots: bigint[] = []): Promise<GetClusterMapResponse> {
    return this.coordinator.call(CoordinatorService.method.getClusterMap, { numSlots }, options);
  }

  #keepOwners(answer: GetClusterMapResponse): void {
    for (const { numSlots, owners: bytes } of answer.slots) {
      const owners = u16s(bytes);
      if (
        BigInt(owners.length) !== numSlots ||
        owners.length === 0 ||
        owners.some((owner) => owner >= answer.shards.length)
      ) {
        throw new InternalError(
          `${this.coordinator.name} answered ${bytes.length} bytes of owners of ${numSlots} slots ` +
            `that are not those of ${answer.shards.length} shards`,
        );
      }
      this.#owners.set(owners.length, owners);
    }
  }

  /** Asks who owns the slots of a model's tables, as far as that is not known. */
  async learnOwners(spec: ModelSpec, options: CallOptions): Promise<void> {
    const unknown = [...new Set(spec.tables.map((table) => table.numSlots ?? 1024n))].filter(
      (slots) => !this.#owners.has(Number(slots)),
    );
    if (unknown.length === 0) return;
    const now = await this.clusterMap(options, unknown);
    if (now.topologyVersion !== this.map.topologyVersion) {
      throw new FailedPreconditionError(
        "the cluster's shards changed since this client was made (topology " +
          `${this.map.topologyVersion}, now ${now.topologyVersion}): connect again`,
        { reason: "STALE_TOPOLOGY" },
      );
    }
    this.#keepOwners(now);
    const missing = unknown.filter((slots) => !this.#owners.has(Number(slots)));
    if (missing.length > 0) {
      throw new InternalError(
        `${this.coordinator.name} did not answer who owns ${missing.join(", ")} slots`,
      );
    }
  }

  /** The shard of every slot of an opened model's table; not to be changed. */
  owners(table: TableSpec): Uint16Array {
    return this.#owners.get(Number(table.numSlots ?? 1024n))!;
  }

  /** Positions in `ids` of each shard's rows, by ordinal. */
  places(table: TableSpec, ids: Uint32Array): Uint32Array[] {
    const owners = this.owners(table);
    const counts = this.shards.map(() => 0);
    for (const id of ids) counts[owners[id % owners.length]!]!++;
    const places = counts.map((count) => new Uint32Array(count));
    counts.fill(0);
    for (let i = 0; i < ids.length; ++i) {
      const owner = owners[ids[i]! % owners.length]!;
      places[owner]![counts[owner]!++] = i;
    }
    return places;
  }
}

// The scatters of one client to one shard, one at a time and each exactly once.

import { type MessageInitShape, create, toBinary } from "@bufbuild/protobuf";
import { type Block, MessageMemory, scatterMessage } from "./bulk.js";
import {
  DataLossError,
  DslideError,
  ResourceExhaustedError,
  UnavailableError,
} from "./errors.js";
import { type HelloResponse, ScatterRequestSchema, ShardService } from "./gen/dslide/v1/shard_pb.js";
import { type CallOptions, type Peer, retryPauseMs, type Settings, sleep } from "./transport.js";

const CHUNK_BYTES = 1 << 20;
const CLOSE_TIMEOUT_MS = 5000;
/** Another process owns the shard since the last greeting, or it does not know this client. */
export const STALE = new Set(["STALE_GENERATION", "UNKNOWN_CLIENT"]);

/** What a scatter says beside its rows and its envelope. */
export type ScatterHead = Pick<
  MessageInitShape<typeof ScatterRequestSchema>,
  "table" | "mode" | "learningRate"
> & { model: string };

/** Refuses a shard that has lost what it had confirmed, or knows what was never sent. */
export function checkGreeting(
  hello: HelloResponse,
  nextSequence: bigint,
  confirmed: bigint,
  peer: string,
): void {
  if (hello.nextSequence <= confirmed || hello.nextSequence > nextSequence + 1n) {
    throw new DataLossError(
      `${peer} expects update ${hello.nextSequence} of this client, but ${confirmed} were ` +
        "confirmed: it was restarted and has lost updates; restore a checkpoint and start the " +
        "training again",
      { reason: "LOST_UPDATES" },
    );
  }
}

/** Closes a client at a shard; one that is gone has nothing to forget. */
export async function closeClient(peer: Peer, job: string, clientId: Uint8Array): Promise<void> {
  try {
    const options = { timeoutMs: CLOSE_TIMEOUT_MS };
    await peer.once(ShardService.method.closeClient, { job, clientId }, options);
  } catch (error) {
    if (!(error instanceof DslideError)) throw error;
  }
}

/**
 * Numbers the scatters; when an answer is lost, asks the shard which number it expects next. So
 * "unknown" becomes "applied" or is sent again. One caller at a time.
 */
export class ScatterQueue {
  #sequence = 1n; // of the next one
  #generation = 0n;
  #settled = false; // whether both are what the shard believes
  readonly #memory = new MessageMemory();

  constructor(
    private readonly peer: Peer,
    private readonly settings: Settings,
    private readonly clientId: Uint8Array,
    private readonly topologyVersion: bigint,
  ) {}

  /** Closes the client at the shard, if that has heard of it. */
  async close(): Promise<void> {
    if (this.#generation !== 0n) await closeClient(this.peer, this.settings.job, this.clientId);
  }

  /** Sends the rows at `places` until they are applied, refused, or the time is over. */
  async apply(
    head: ScatterHead,
    block: Block,
    places: Uint32Array,
    options: CallOptions,
  ): Promise<void> {
    const { signal } = options;
    const timeoutMs = options.timeoutMs ?? this.settings.timeoutMs;
    const start = performance.now();
    // Resolves an earlier scatter of unknown fate, too: its number is used or free.
    if (!this.#settled) await this.#settle(options);
    for (let attempt = 1; ; ++attempt) {
      const leftMs = Math.max(timeoutMs - (performance.now() - start), 1);
      try {
        const taken: Buffer[] = [];
        const messages = this.#messages(head, block, places, taken);
        const left = { signal, timeoutMs: leftMs };
        await this.peer.upload(ShardService.method.scatter, messages, left);
        this.#memory.giveBack(taken);
        this.#sequence += 1n;
        return;
      } catch (error) {
        // A number whose fate is unknown may not be given to another scatter.
        this.#settled = false;
        if (!(error instanceof DslideError)) throw error;
        const busy =
          error.applied === false &&
          (error instanceof ResourceExhaustedError || error instanceof UnavailableError);
        if (error.applied === false && !busy && !STALE.has(error.reason)) throw error;
        const waitMs = retryPauseMs(error, attempt);
        const limitMs = busy ? timeoutMs : Math.min(timeoutMs, this.settings.patienceMs);
        if (performance.now() - start + waitMs >= limitMs) throw error;
        await sleep(waitMs, signal);
        if (!busy) await this.#greetAgain(options);
      }
    }
  }

  *#messages(
    head: ScatterHead,
    block: Block,
    places: Uint32Array,
    taken: Buffer[],
  ): Iterable<Buffer> {
    const room = (size: number): Buffer => this.#memory.take(size, taken);
    const rowBytes = 4 * (block.values.length / block.ids.length);
    const step = Math.max(1, Math.floor(CHUNK_BYTES / rowBytes));
    for (let first = 0; first < places.length; first += step) {
      const { model, ...rest } = head;
      const others = create(
        ScatterRequestSchema,
        first > 0
          ? {}
          : {
              ...rest,
              totalRows: BigInt(places.length),
              envelope: {
                job: this.settings.job,
                clientId: this.clientId,
                sequence: this.#sequence,
                firstIncomplete: this.#sequence,
                generation: this.#generation,
                topologyVersion: this.topologyVersion,
                model,
              },
            },
      );
      const some = places.subarray(first, first + step);
      yield scatterMessage(toBinary(ScatterRequestSchema, others), block, some, room);
    }
  }

  async #greet(options: CallOptions): Promise<HelloResponse> {
    const hello = await this.peer.call(
      ShardService.method.hello,
      {
        job: this.settings.job,
        clientId: this.clientId,
        acknowledgedSequence: this.#sequence - 1n,
      },
      options,
    );
    checkGreeting(hello, this.#sequence, this.#sequence - 1n, this.peer.name);
    this.#generation = hello.generation;
    return hello;
  }

  async #settle(options: CallOptions): Promise<void> {
    this.#sequence = (await this.#greet(options)).nextSequence;
    this.#settled = true;
  }

  /** Before the same scatter again: when it was applied, that gets its answer. */
  async #greetAgain(options: CallOptions): Promise<void> {
    try {
      await this.#greet(options);
    } catch (error) {
      // The shard may not be back yet.
      if (!(error instanceof DslideError) || error instanceof DataLossError) throw error;
    }
  }
}

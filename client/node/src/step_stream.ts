// The hot path to one shard: a long-lived stream of step operations, mended when it breaks.
//
// Operations get the numbers 1, 2, 3, … of this client at the shard. After a break the stream asks
// the shard which number it expects, and sends what has no answer again, unchanged and in order: the
// shard applies nothing twice and repeats the answers that it had given.

import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type ClientDuplexStream, type ServiceError, status } from "@grpc/grpc-js";
import {
  AbortedError,
  DataLossError,
  DeadlineExceededError,
  DslideError,
  FailedPreconditionError,
  fromGrpc,
  InternalError,
  makeError,
  milliseconds,
  ResourceExhaustedError,
  UnavailableError,
} from "./errors.js";
import {
  ShardService,
  type StepRequest,
  StepRequestSchema,
  type StepResponse,
  StepResponseSchema,
} from "./gen/dslide/v1/shard_pb.js";
import { checkGreeting, closeClient, STALE } from "./scatter_queue.js";
import { pathOf, type Peer, retryPauseMs, type Settings, sleep } from "./transport.js";

const HELLO_TIMEOUT_MS = 5000;
// A shard stops reading a stream with 256 requests, or 32 MiB of them, without an answer.
const MAX_UNANSWERED = 128;
const MAX_UNANSWERED_BYTES = 24 << 20;

/** One operation of a step, as the message has it. */
export type StepOperation = NonNullable<
  Exclude<MessageInitShape<typeof StepRequestSchema>, StepRequest>["operation"]
>;
/** The answer to an operation; never an error. */
export type StepResult = StepResponse["result"];

interface Sent {
  request: StepRequest;
  bytes: number;
  deadline: number;
  heldBefore: boolean;
  resolve: (result: StepResult) => void;
  reject: (error: unknown) => void;
}

/** Who sends, to which model. */
export interface StreamIdentity {
  clientId: Uint8Array;
  model: string;
  topologyVersion: bigint;
}

/** Operations are applied, and answered, in the order of `send`. */
export class StepStream {
  #generation = 0n;
  #nextSequence = 1n;
  #confirmed = 0n;
  #unanswered: Sent[] = [];
  #bytes = 0;
  #written = 0; // of the unanswered ones, handed to the present call
  #held = 0; // refused for the moment, from the front on
  #resumeAt = 0;
  #lastResent = 0n; // on this call, the last that was held
  #call: ClientDuplexStream<Buffer, Buffer> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #resendTimer: NodeJS.Timeout | undefined;
  #room: (() => void)[] = [];
  #turn: Promise<unknown> = Promise.resolve();
  #failure: unknown; // of the whole stream: it can not be used any more
  readonly #requestId: string;

  private constructor(
    private readonly peer: Peer,
    private readonly settings: Settings,
    private readonly identity: StreamIdentity,
  ) {
    this.#requestId = settings.request(); // of all its calls
  }

  static async open(
    peer: Peer,
    settings: Settings,
    identity: StreamIdentity,
    signal?: AbortSignal,
  ): Promise<StepStream> {
    const stream = new StepStream(peer, settings, identity);
    await peer.repeat(() => stream.#hello(signal), { signal });
    stream.#connect();
    return stream;
  }

  /**
   * Sends one operation, once there is room, and returns its answer.
   *
   * Rejects with the shard's error; with DeadlineExceededError or UnavailableError when it cannot
   * be reached in time, and DataLossError when it came back without updates that it had confirmed:
   * these end the stream.
   */
  async send(step: number, firstOpenStep: number, operation: StepOperation): Promise<StepResult> {
    const queued = this.#turn.then(() => this.#enqueue(step, firstOpenStep, operation));
    this.#turn = queued.catch(() => undefined);
    return (await queued).answer;
  }

  /** Ends the stream and closes the client: the shard frees its contexts and answers. */
  async close(): Promise<void> {
    this.#fail(new FailedPreconditionError(`the steps to ${this.peer.name} are closed`));
    await closeClient(this.peer, this.settings.job, this.identity.clientId);
  }

  async #enqueue(
    step: number,
    firstOpenStep: number,
    operation: StepOperation,
  ): Promise<{ answer: Promise<StepResult> }> {
    const request = create(StepRequestSchema, {
      step: BigInt(step),
      firstOpenStep: BigInt(firstOpenStep),
      operation,
    });
    const bytes = toBinary(StepRequestSchema, request).length;
    while (
      this.#failure === undefined &&
      this.#unanswered.length > 0 &&
      (this.#unanswered.length >= MAX_UNANSWERED || this.#bytes + bytes > MAX_UNANSWERED_BYTES)
    ) {
      await new Promise<void>((resolve) => this.#room.push(resolve));
    }
    if (this.#failure !== undefined) throw this.#failure;
    const sequence = this.#nextSequence++;
    request.envelope = create(StepRequestSchema, {
      envelope: {
        job: this.settings.job,
        clientId: this.identity.clientId,
        sequence,
        firstIncomplete: this.#unanswered[0]?.request.envelope?.sequence ?? sequence,
        generation: this.#generation,
        topologyVersion: this.identity.topologyVersion,
        model: this.identity.model,
      },
    }).envelope!;
    const answer = new Promise<StepResult>((resolve, reject) => {
      const deadline = performance.now() + this.settings.timeoutMs;
      this.#unanswered.push({ request, bytes, deadline, heldBefore: false, resolve, reject });
    });
    answer.catch(() => undefined); // told to who awaits it
    this.#bytes += bytes;
    this.#watch();
    this.#write();
    return { answer };
  }

  #write(): void {
    if (!this.#call) return;
    for (; this.#written < this.#unanswered.length; ++this.#written) {
      const bytes = toBinary(StepRequestSchema, this.#unanswered[this.#written]!.request);
      this.#call.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    }
  }

  /** The deadline of the oldest operation ends the stream: nobody knows what became of it. */
  #watch(): void {
    if (this.#timer || this.#unanswered.length === 0) return;
    const leftMs = Math.max(this.#unanswered[0]!.deadline - performance.now(), 0);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const oldest = this.#unanswered[0];
      if (oldest && performance.now() >= oldest.deadline) {
        const { name, remedy } = this.peer;
        this.#fail(
          new DeadlineExceededError(
            `no answer from ${name} within ${this.settings.timeoutMs} ms; ${remedy} ` +
              `(request ${this.#requestId})`,
            { applied: undefined, requestId: this.#requestId, remedy },
          ),
        );
      } else {
        this.#watch();
      }
    }, leftMs + 1);
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    clearTimeout(this.#timer);
    clearTimeout(this.#resendTimer);
    this.#disconnect();
    const lost = this.#unanswered;
    this.#unanswered = [];
    for (const sent of lost) sent.reject(error);
    this.#wake();
  }

  #wake(): void {
    for (const resolve of this.#room.splice(0)) resolve();
  }

  #onAnswer(answer: StepResponse): void {
    const held = this.#unanswered[this.#held];
    if (!held) return; // the repetition of an answer
    const expected = held.request.envelope!.sequence;
    const repeated = answer.sequence === this.#lastResent && answer.sequence !== expected;
    if (answer.sequence < expected || repeated) return;
    if (answer.sequence !== expected) {
      return this.#fail(
        new InternalError(
          `${this.peer.name} answered request ${answer.sequence} instead of ${expected}: it does ` +
            "not keep the order",
          { applied: undefined },
        ),
      );
    }
    const error = this.#errorOf(answer);
    if (this.#held === 0) {
      if (!error) return this.#take().resolve(answer.result);
      // A gap in front: an earlier request was refused for good and its number is free. Sent again,
      // this one gives that number up. A second gap means something else.
      const gap = error.reason === "SEQUENCE_GAP";
      // Another process owns the shard now, or it does not know this client: a new call begins with
      // a greeting, which tells whether updates are lost.
      if (STALE.has(error.reason) && !held.heldBefore) {
        held.heldBefore = true;
        this.#disconnect();
        return void this.#mend();
      }
      const again = isTransient(error) || (gap && !held.heldBefore);
      const againAt = performance.now() + (gap ? 0 : retryPauseMs(error, 1));
      // Too late to be sent again: the shard's reason says more than silence at the deadline.
      if (!again || againAt >= held.deadline) return this.#take(false).reject(error);
      held.heldBefore = true;
      this.#resumeAt = againAt;
    }
    // What was sent behind it is refused for the gap, and sent again with it.
    this.#held += 1;
    if (this.#held >= this.#written) {
      const waitMs = Math.max(this.#resumeAt - performance.now(), 0);
      this.#resendTimer = setTimeout(() => this.#resend(), waitMs);
    }
  }

  /** Takes the oldest operation from those without an answer. */
  #take(confirmed = true): Sent {
    const sent = this.#unanswered.shift()!;
    if (confirmed) this.#confirmed = sent.request.envelope!.sequence;
    this.#written -= 1;
    this.#bytes -= sent.bytes;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#watch();
    this.#wake();
    return sent;
  }

  #errorOf(answer: StepResponse): DslideError | undefined {
    if (answer.result.case !== "error") return undefined;
    const { code, message, reason, retryAfter } = answer.result.value;
    return makeError(code, `${this.peer.name}: ${message}`, {
      reason,
      retryAfterMs: milliseconds(retryAfter),
      requestId: this.#requestId,
    });
  }

  /** Sends again what was held; numbers given up are named by a higher first_incomplete. */
  #resend(): void {
    const held = this.#unanswered[this.#held - 1];
    if (!held || this.#failure !== undefined) return;
    this.#lastResent = held.request.envelope!.sequence;
    const first = this.#unanswered[0]!.request.envelope!.sequence;
    for (const { request } of this.#unanswered) request.envelope!.firstIncomplete = first;
    this.#held = 0;
    this.#written = 0;
    this.#write();
  }

  async #hello(signal?: AbortSignal): Promise<void> {
    const hello = await this.peer.once(
      ShardService.method.hello,
      {
        job: this.settings.job,
        clientId: this.identity.clientId,
        acknowledgedSequence: this.#confirmed,
      },
      { signal, timeoutMs: Math.min(HELLO_TIMEOUT_MS, this.settings.timeoutMs) },
    );
    checkGreeting(hello, this.#nextSequence, this.#confirmed, this.peer.name);
    this.#generation = hello.generation;
    for (const { request } of this.#unanswered) request.envelope!.generation = hello.generation;
  }

  #connect(): void {
    const asItIs = (bytes: Buffer): Buffer => bytes;
    const call = this.peer.client.makeBidiStreamRequest(
      pathOf(ShardService.method.step), asItIs, asItIs, this.peer.metadata(this.#requestId),
    );
    this.#call = call;
    this.#lastResent = 0n;
    this.#held = 0;
    this.#written = 0;
    call.on("data", (message: Buffer) => {
      if (this.#call === call) this.#onAnswer(fromBinary(StepResponseSchema, message));
    });
    call.on("error", (error) => this.#onBreak(call, error as ServiceError));
    call.on("end", () => this.#onBreak(call, undefined));
    this.#write();
  }

  #disconnect(): void {
    const call = this.#call;
    this.#call = undefined;
    call?.cancel();
  }

  #onBreak(call: ClientDuplexStream<Buffer, Buffer>, error: ServiceError | undefined): void {
    if (this.#call !== call) return; // this side's own end
    this.#call = undefined;
    clearTimeout(this.#resendTimer);
    const { name, remedy } = this.peer;
    const why = error
      ? fromGrpc(error, name, "Step", remedy, this.#requestId)
      : makeError(status.UNAVAILABLE, `${name}, Step: the shard ended the stream`, {});
    if (!(why instanceof UnavailableError) && !(why instanceof InternalError) && why.applied === false) {
      return this.#fail(why);
    }
    void this.#mend();
  }

  /** Greets the shard until it is back, then sends again what has no answer. */
  async #mend(): Promise<void> {
    const start = performance.now();
    for (let attempt = 1; this.#failure === undefined; ++attempt) {
      try {
        await this.#hello();
        if (this.#failure === undefined) this.#connect();
        return;
      } catch (error) {
        const away = error instanceof UnavailableError || error instanceof DeadlineExceededError;
        const waitMs = away ? retryPauseMs(error, attempt) : 0;
        const late = performance.now() + waitMs - start >= this.settings.timeoutMs;
        if (!away || late || error instanceof DataLossError) return this.#fail(error);
        await sleep(waitMs, undefined);
      }
    }
  }
}

function isTransient(error: DslideError): boolean {
  return (
    error instanceof ResourceExhaustedError ||
    error instanceof UnavailableError ||
    error instanceof AbortedError
  );
}

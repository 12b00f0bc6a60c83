// Channels and single calls: addresses, encryption, deadlines, errors, bounded repetition.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import {
  create,
  type DescMessage,
  type DescMethod,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { type ChannelOptions, Client, credentials, Metadata } from "@grpc/grpc-js";
import {
  DeadlineExceededError,
  type DslideError,
  fromGrpc,
  InvalidArgumentError,
  UnavailableError,
} from "./errors.js";
import { version } from "./version.js";

// Messages are at most 4 MiB by the protocol; the margin is for what is around bulk fields.
const MAX_MESSAGE_BYTES = (4 << 20) + (64 << 10);
const FLOW_CONTROL_WINDOW = 16 << 20;
const CHANNEL_OPTIONS: ChannelOptions = {
  "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
  "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
  "grpc-node.flow_control_window": FLOW_CONTROL_WINDOW,
  "grpc.keepalive_time_ms": 30000,
  "grpc.keepalive_timeout_ms": 10000,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 2000,
  // What may be repeated, and when, is decided here.
  "grpc.enable_retries": 0,
  "grpc.service_config_disable_resolution": 1,
  "grpc.use_local_subchannel_pool": 1,
};
/** Of calls that write or read all rows. */
export const LONG_TIMEOUT_MS = 3_600_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2000;

/** Files (PEM) of an encrypted connection. */
export interface Tls {
  /** Authorities of the servers; none: those of the system. */
  ca?: string;
  /** This client's own certificate, for clusters that ask for one; together with `key`. */
  cert?: string;
  key?: string;
}

/** What every operation takes. */
export interface CallOptions {
  /** Ends the operation with the signal's reason. A change may be applied all the same. */
  signal?: AbortSignal | undefined;
  /** The deadline of the operation; by default that of the connection. */
  timeoutMs?: number | undefined;
}

/** How a client connects and calls. */
export interface ConnectOptions {
  /** Certificates; none: plaintext, which may not leave this machine unless `insecure`. */
  tls?: Tls;
  /** Accepts plaintext to other machines. */
  insecure?: boolean;
  /** The deadline of every call: 30,000. */
  timeoutMs?: number;
  /** For how long a call is repeated while nobody answers: 4,000. */
  patienceMs?: number;
  /** Names the training job in every change of rows, [a-z0-9-]{1,64}: "default". */
  job?: string;
  /** What every call sends as x-request-id; by default a new one for each. */
  requestId?: string;
  /** Ends the opening of the connection. */
  signal?: AbortSignal;
}

/** ConnectOptions with every default. */
export class Settings {
  readonly tls: Tls | undefined;
  readonly insecure: boolean;
  readonly timeoutMs: number;
  readonly patienceMs: number;
  readonly job: string;
  readonly #requestId: string;

  constructor(options: ConnectOptions) {
    this.tls = options.tls;
    this.insecure = options.insecure ?? false;
    this.timeoutMs = positive(options.timeoutMs ?? 30_000, "timeoutMs");
    this.patienceMs = positive(options.patienceMs ?? 4_000, "patienceMs");
    this.job = options.job ?? "default";
    this.#requestId = options.requestId ?? "";
    if (this.#requestId !== "" && !/^[!-~]{1,64}$/.test(this.#requestId)) {
      throw new InvalidArgumentError(
        `requestId ${JSON.stringify(this.#requestId)} is not 1 to 64 visible ASCII characters`,
      );
    }
  }

  /** The id of the next call. */
  request(): string {
    return this.#requestId || randomBytes(8).toString("hex");
  }
}

function positive(value: number, name: string): number {
  if (value > 0) return value;
  throw new InvalidArgumentError(`${name} is ${value}, must be a positive number of milliseconds`);
}

function pem(field: string, path: string | undefined): Buffer | null {
  if (path === undefined) return null;
  let data: Buffer;
  try {
    data = readFileSync(path);
  } catch (error) {
    throw new InvalidArgumentError(`tls.${field}: cannot read ${path}: ${(error as Error).message}`);
  }
  if (!data.includes("-----BEGIN")) {
    throw new InvalidArgumentError(`tls.${field}: ${path} is no PEM file`);
  }
  return data;
}

function channelCredentials(tls: Tls | undefined): ReturnType<typeof credentials.createSsl> {
  if (!tls) return credentials.createInsecure();
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new InvalidArgumentError("tls.cert and tls.key belong together: give both");
  }
  return credentials.createSsl(pem("ca", tls.ca), pem("key", tls.key), pem("cert", tls.cert));
}

function hostOf(address: string): string {
  return address.slice(0, address.lastIndexOf(":")).replace(/^\[|\]$/g, "");
}

/** Whether a connection does not leave this machine. */
function staysHere(address: string): boolean {
  if (address.startsWith("unix:")) return true;
  const host = hostOf(address);
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

function checkAddress(address: string, settings: Settings): void {
  const port = Number(/:(\d{1,5})$/.exec(address)?.[1] ?? 0);
  if (!address.startsWith("unix:") && (hostOf(address) === "" || port < 1 || port > 65535)) {
    throw new InvalidArgumentError(
      `address ${JSON.stringify(address)} is not host:port (for example 127.0.0.1:7000) or unix:PATH`,
    );
  }
  if (!settings.tls && !settings.insecure && !staysHere(address)) {
    throw new InvalidArgumentError(
      `${address} is another machine and the connection would not be encrypted: pass ` +
        "tls: { ca, cert, key }, or insecure: true to accept that on a network you trust",
    );
  }
}

/** Before repetition `attempt` (from 1): what the server asks, or growing and spread. */
export function retryPauseMs(error: DslideError, attempt: number): number {
  if (error.retryAfterMs > 0) return error.retryAfterMs;
  const nominal = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt - 1, 30));
  return nominal * (0.5 + 0.5 * Math.random());
}

/** Waits; an abort ends it with the signal's reason. */
export async function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await pause(ms, undefined, signal ? { signal } : {});
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/** The path of a method on the wire. */
export function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** A message as gRPC sends it. */
export function encode<S extends DescMessage>(schema: S, message: MessageInitShape<S>): Buffer {
  const bytes = toBinary(schema, create(schema, message));
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

const asItIs = (bytes: Buffer): Buffer => bytes;
const NOTHING = Buffer.alloc(0);

interface Call {
  cancel(): void;
}

/** One server: a channel, and calls with everything around them. */
export class Peer {
  readonly name: string;
  readonly client: Client;
  readonly #settings: Settings;

  constructor(
    settings: Settings,
    readonly address: string,
    name: string,
    readonly remedy: string,
  ) {
    checkAddress(address, settings);
    this.name = `${name} at ${address}`;
    this.#settings = settings;
    // No proxy of the environment knows this machine's own addresses.
    const own = staysHere(address) ? { "grpc.enable_http_proxy": 0 } : {};
    this.client = new Client(address, channelCredentials(settings.tls), {
      ...CHANNEL_OPTIONS,
      ...own,
    });
  }

  close(): void {
    this.client.close();
  }

  /** What a call sends beside its request. */
  metadata(requestId: string): Metadata {
    const metadata = new Metadata();
    metadata.set("dslide-client", `node/${version}`);
    metadata.set("x-request-id", requestId);
    return metadata;
  }

  /** One attempt of a unary call. */
  async once<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions,
  ): Promise<MessageShape<O>> {
    const bytes = encode(method.input, request);
    const answer = await this.#settled<Buffer>(method, options, (metadata, deadline, done) =>
      this.client.makeUnaryRequest(
        pathOf(method), asItIs, asItIs, bytes, metadata, { deadline },
        (error, value) => done(error, value ?? NOTHING),
      ),
    );
    return fromBinary(method.output, answer);
  }

  /** A call that is safe to repeat: again after UNAVAILABLE, for as long as is patient. */
  call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    options: CallOptions = {},
  ): Promise<MessageShape<O>> {
    return this.repeat((left) => this.once(method, request, left), options);
  }

  /** One attempt of a call whose answer is a stream; `onMessage` gets each message's bytes. */
  download<I extends DescMessage>(
    method: DescMethod & { input: I },
    request: Buffer,
    options: CallOptions,
    onMessage: (message: Buffer) => void,
  ): Promise<void> {
    return this.#settled<void>(method, options, (metadata, deadline, done) => {
      const call = this.client.makeServerStreamRequest(
        pathOf(method), asItIs, asItIs, request, metadata, { deadline },
      );
      call.on("data", (message: Buffer) => {
        try {
          onMessage(message);
        } catch (error) {
          done(error as Error);
          call.cancel();
        }
      });
      call.on("error", (error) => done(error));
      call.on("end", () => done(null));
      return call;
    });
  }

  /** One attempt of a call whose request is a stream; waits where the server reads slowly. */
  async upload<O extends DescMessage>(
    method: DescMethod & { output: O },
    messages: Iterable<Buffer>,
    options: CallOptions,
  ): Promise<MessageShape<O>> {
    const answer = await this.#settled<Buffer>(method, options, (metadata, deadline, done) => {
      const call = this.client.makeClientStreamRequest(
        pathOf(method), asItIs, asItIs, metadata, { deadline },
        (error, value) => done(error, value ?? NOTHING),
      );
      const rest = messages[Symbol.iterator]();
      const write = (): void => {
        for (;;) {
          const next = rest.next();
          if (next.done) return void call.end();
          if (!call.write(next.value)) return void call.once("drain", write);
        }
      };
      call.on("error", () => undefined); // told to the callback
      write();
      return call;
    });
    return fromBinary(method.output, answer);
  }

  /** Runs one call until its end, its deadline or an abort. */
  #settled<T>(
    method: DescMethod,
    options: CallOptions,
    start: (
      metadata: Metadata,
      deadline: number,
      done: (error: Error | null, value?: T) => void,
    ) => Call,
  ): Promise<T> {
    const { signal } = options;
    const requestId = this.#settings.request();
    const deadline = Date.now() + (options.timeoutMs ?? this.#settings.timeoutMs);
    return new Promise<T>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const abort = (): void => {
        reject(signal!.reason as Error);
        call.cancel();
      };
      const call = start(this.metadata(requestId), deadline, (error, value) => {
        signal?.removeEventListener("abort", abort);
        if (!error) return resolve(value as T);
        reject(
          "details" in error
            ? fromGrpc(error as never, this.name, method.name, this.remedy, requestId)
            : error,
        );
      });
      signal?.addEventListener("abort", abort, { once: true });
    });
  }

  /** Awaits attempt(what is left), again after UNAVAILABLE, for as long as is patient. */
  async repeat<T>(
    attempt: (left: CallOptions) => Promise<T>,
    options: CallOptions = {},
  ): Promise<T> {
    const { signal } = options;
    const timeoutMs = options.timeoutMs ?? this.#settings.timeoutMs;
    const start = performance.now();
    let why: UnavailableError | undefined;
    for (let number = 1; ; ++number) {
      const leftMs = Math.max(timeoutMs - (performance.now() - start), 1);
      try {
        return await attempt({ signal, timeoutMs: leftMs });
      } catch (error) {
        if (error instanceof DeadlineExceededError) throw why ?? error;
        if (!(error instanceof UnavailableError)) throw error;
        why = error;
      }
      const waitMs = retryPauseMs(why, number);
      const limitMs = Math.min(timeoutMs, this.#settings.patienceMs);
      if (performance.now() - start + waitMs >= limitMs) throw why;
      await sleep(waitMs, signal);
    }
  }
}

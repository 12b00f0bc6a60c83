// Predictions as a service: what `dslide serve` answers.

import { type MessageInitShape } from "@bufbuild/protobuf";
import {
  type GetModelResponse,
  PredictMode,
  type PredictQuerySchema,
  type PredictResult,
  PredictService,
} from "./gen/dslide/v1/predict_pb.js";
import { InternalError, InvalidArgumentError, ResourceExhaustedError } from "./errors.js";
import {
  type CallOptions,
  type ConnectOptions,
  Peer,
  retryPauseMs,
  Settings,
  sleep,
} from "./transport.js";

const MODES = {
  exact: PredictMode.EXACT,
  hashed: PredictMode.HASHED,
  neighbours: PredictMode.NEIGHBOURS,
} as const;

/** A text, the features of a point as the data has it, or a hidden vector. */
export type Query =
  | { text: string }
  | { ids: ArrayLike<number>; values?: ArrayLike<number> }
  | { names: readonly string[]; values?: ArrayLike<number> }
  | { hidden: ArrayLike<number> };

export interface PredictOptions extends CallOptions {
  /** Labels of each query, [1, 1024]: 10. */
  topK?: number;
  /** By default what the server is set to. */
  mode?: keyof typeof MODES;
}

type PredictQueryInit = MessageInitShape<typeof PredictQuerySchema>;

function queryOf(query: Query): PredictQueryInit {
  if ("text" in query) return { input: { case: "text", value: query.text } };
  if ("hidden" in query) {
    return { input: { case: "hidden", value: { values: Array.from(query.hidden) } } };
  }
  const values = Array.from(query.values ?? []);
  const value =
    "names" in query
      ? { names: [...query.names], values }
      : { ids: Array.from(query.ids), values };
  return { input: { case: "features", value } };
}

/** A server of predictions. Made by `connectPredictor`; closed by `close`. */
export class Predictor {
  readonly #peer: Peer;
  readonly #settings: Settings;

  constructor(address: string, options: ConnectOptions) {
    this.#settings = new Settings(options);
    this.#peer = new Peer(
      this.#settings,
      address,
      "prediction server",
      `start it (dslide serve --listen ${address}), or name the address of one that runs`,
    );
  }

  /** What is served, and what it takes. */
  model(options: CallOptions = {}): Promise<GetModelResponse> {
    return this.#peer.call(PredictService.method.getModel, {}, options);
  }

  /**
   * The best labels of each query, best first, in the order of the queries. At most 256 queries.
   * A server that is too busy is asked again, after the pause that it asks for, within the timeout.
   */
  async predict(queries: readonly Query[], options: PredictOptions = {}): Promise<PredictResult[]> {
    if (options.mode !== undefined && MODES[options.mode] === undefined) {
      throw new InvalidArgumentError(
        `mode is ${JSON.stringify(options.mode)}, must be one of ${Object.keys(MODES).join(", ")}`,
      );
    }
    const request = {
      queries: queries.map(queryOf),
      topK: options.topK ?? 0,
      mode: options.mode ? MODES[options.mode] : PredictMode.UNSPECIFIED,
    };
    const timeoutMs = options.timeoutMs ?? this.#settings.timeoutMs;
    const start = performance.now();
    for (let attempt = 1; ; ++attempt) {
      const leftMs = Math.max(timeoutMs - (performance.now() - start), 1);
      const left = { signal: options.signal, timeoutMs: leftMs };
      try {
        const answer = await this.#peer.call(PredictService.method.predict, request, left);
        if (answer.results.length === queries.length) return answer.results;
        throw new InternalError(
          `${this.#peer.name} answered ${answer.results.length} of ${queries.length} queries`,
        );
      } catch (error) {
        if (!(error instanceof ResourceExhaustedError) || error.retryAfterMs === 0) throw error;
        const waitMs = retryPauseMs(error, attempt);
        if (performance.now() - start + waitMs >= timeoutMs) throw error;
        await sleep(waitMs, options.signal);
      }
    }
  }

  close(): void {
    this.#peer.close();
  }
}

/** Connects to a server of predictions (`dslide serve`); the first call tells whether it is there. */
export function connectPredictor(
  address = "127.0.0.1:7030",
  options: ConnectOptions = {},
): Predictor {
  return new Predictor(address, options);
}

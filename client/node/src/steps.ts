// The steps of one trainer: a stream of operations to each shard.

import { randomBytes } from "node:crypto";
import { type Connection } from "./connection.js";
import { InternalError } from "./errors.js";
import { model } from "./models.js";
import { type StepOperation, type StepResult, StepStream } from "./step_stream.js";
import { type CallOptions } from "./transport.js";

/** The answer of a kind of operation. */
export type ResultOf<K extends StepOperation["case"]> = Extract<StepResult, { case: K }>["value"];

/** What a trainer does to a model, step by step, exactly once. Made by `Model.steps`. */
export class Steps {
  private constructor(
    /** By which the shards, and the coordinator's leases, know this trainer. */
    readonly clientId: Uint8Array,
    private readonly streams: readonly StepStream[],
  ) {}

  static async open(connection: Connection, name: string, options: CallOptions): Promise<Steps> {
    await model(connection, name, options);
    const clientId = randomBytes(16);
    const identity = {
      clientId,
      model: name,
      topologyVersion: connection.map.topologyVersion,
    };
    const opened = await Promise.allSettled(
      connection.shards.map((shard) =>
        StepStream.open(shard, connection.settings, identity, options.signal),
      ),
    );
    const streams = opened.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const failed = opened.find((one) => one.status === "rejected");
    if (failed) {
      await Promise.all(streams.map((stream) => stream.close()));
      throw failed.reason;
    }
    return new Steps(clientId, streams);
  }

  /**
   * Runs one operation of a step on every shard, by ordinal, and returns their answers. A shard whose
   * operation is undefined is not asked, and has no answer.
   *
   * Steps are numbered from 1 and ascend; `firstOpenStep` is the lowest that is not done: `step` for
   * a trainer that has one at a time. Several may be under way; operations of a shard are applied in
   * the order of the calls.
   */
  async run<K extends StepOperation["case"]>(
    step: number,
    firstOpenStep: number,
    kind: K,
    operations: readonly (Extract<StepOperation, { case: K }>["value"] | undefined)[],
  ): Promise<ResultOf<K>[]> {
    const answers = await Promise.all(
      this.streams.flatMap((stream, shard) => {
        const value = operations[shard];
        if (value === undefined) return [];
        return [stream.send(step, firstOpenStep, { case: kind, value } as StepOperation)];
      }),
    );
    return answers.map((answer) => {
      if (answer.case === kind) return answer.value as ResultOf<K>;
      throw new InternalError(`a shard answered ${answer.case} to ${kind}`);
    });
  }

  /** Ends the streams and closes this trainer at the shards. */
  async close(): Promise<void> {
    await Promise.all(this.streams.map((stream) => stream.close()));
  }
}

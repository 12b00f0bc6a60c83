// Operations of the coordinator, which take as long as disks do; and what is kept by them.

import { type DescMessage, type DescMethodUnary, type MessageInitShape } from "@bufbuild/protobuf";
import { type Connection } from "./connection.js";
import { makeError, milliseconds, NotFoundError, UnavailableError } from "./errors.js";
import { CoordinatorService, type Operation } from "./gen/dslide/v1/coordinator_pb.js";
import { type CallOptions, LONG_TIMEOUT_MS, sleep } from "./transport.js";

const TURN_SECONDS = 30; // for which one question waits for the end
const PAUSE_MS = 200; // after an answer that came too early

/** Starts an operation and waits for its end; again when its coordinator is gone. */
async function finish<I extends DescMessage>(
  connection: Connection,
  method: DescMethodUnary<I>,
  request: MessageInitShape<I>,
  options: CallOptions,
): Promise<Operation["result"]> {
  const { coordinator } = connection;
  return coordinator.repeat(
    async ({ signal }) => {
      const started = await coordinator.call(method, request, { signal });
      let { operation } = started as unknown as { operation: Operation };
      while (!operation.done) operation = await look(connection, operation, signal);
      if (!operation.error) return operation.result;
      const { code, message, reason, retryAfter } = operation.error;
      throw makeError(
        code,
        `${coordinator.name}, ${method.name}: ${message} (operation ${operation.operationId})`,
        { reason, retryAfterMs: milliseconds(retryAfter) },
      );
    },
    { timeoutMs: LONG_TIMEOUT_MS, ...options },
  );
}

async function look(
  connection: Connection,
  { operationId }: Operation,
  signal: AbortSignal | undefined,
): Promise<Operation> {
  const timeoutMs = TURN_SECONDS * 1000 + connection.settings.timeoutMs;
  const asked = performance.now();
  try {
    const answer = await connection.coordinator.call(
      CoordinatorService.method.getOperation,
      { operationId, wait: { seconds: BigInt(TURN_SECONDS) } },
      { signal, timeoutMs },
    );
    if (!answer.operation!.done && performance.now() - asked < TURN_SECONDS * 1000) {
      await sleep(PAUSE_MS, signal);
    }
    return answer.operation!;
  } catch (error) {
    // The coordinator was restarted: the work may be repeated.
    if (!(error instanceof NotFoundError)) throw error;
    throw new UnavailableError(error.message, { reason: error.reason });
  }
}

/** Makes every shard write a model's rows under that name; needs data directories. */
export async function saveCheckpoint(
  connection: Connection,
  model: string,
  checkpoint: string,
  options: CallOptions = {},
): Promise<{ rows: bigint; bytes: bigint }> {
  const { createCheckpoint } = CoordinatorService.method;
  const result = await finish(connection, createCheckpoint, { model, checkpoint }, options);
  return result.case === "createCheckpoint" ? result.value : { rows: 0n, bytes: 0n };
}

/** Makes every shard take a model's rows from it; how many there are. */
export async function restoreCheckpoint(
  connection: Connection,
  model: string,
  checkpoint: string,
  options: CallOptions = {},
): Promise<bigint> {
  const { restoreCheckpoint: restore } = CoordinatorService.method;
  const result = await finish(connection, restore, { model, checkpoint }, options);
  return result.case === "restoreCheckpoint" ? result.value.rows : 0n;
}

// A trainer's leases: parts of a job's work that are its own for a while.

import { create } from "@bufbuild/protobuf";
import { type Connection } from "./connection.js";
import { DslideError, FailedPreconditionError, milliseconds, NotFoundError } from "./errors.js";
import {
  type AcquireWorkResponse,
  type ChunkLease,
  type EvaluationLease,
  type JobFinished,
  type StageLease,
  type WorkReport,
  WorkReportSchema,
} from "./gen/dslide/v1/coordinator_pb.js";
import { acquireWork, type JobSpecInit, leaveJob, registerJob } from "./jobs.js";
import { type CallOptions, sleep } from "./transport.js";

const RENEW_MS = 1000;
const LEAVE_TIMEOUT_MS = 5000;

/** What a chunk's report says. */
export interface ChunkReport {
  lossSum: number;
  samples: number;
}

/** A part of a job's work. `finish` is called once it is done. */
export type Lease =
  | { kind: "chunk"; lease: ChunkLease; finish(report: ChunkReport): void }
  | { kind: "evaluation"; lease: EvaluationLease; finish(report: { metric: number }): void }
  | { kind: "stage"; lease: StageLease; finish(report: { bestRestored: boolean }): void };

/**
 * The lease loop of a trainer: `for await (const lease of leases)` asks for work until the job is
 * finished, and renews in the background what is held. A loop that is left gives its leases back.
 */
export class Leases implements AsyncIterable<Lease> {
  /** How the job ended; undefined before. */
  result: JobFinished | undefined;
  readonly #held = new Set<bigint>();
  #finished: WorkReport[] = [];
  #turn: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly connection: Connection,
    private readonly job: JobSpecInit & { job: string },
    private readonly clientId: Uint8Array,
    private readonly options: CallOptions,
  ) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Lease, void, undefined> {
    const { signal } = this.options;
    await registerJob(this.connection, this.job, this.clientId, this.options);
    // A renewal that is lost shows at the next call that wants work.
    const timer = setInterval(() => void this.#ask(false).catch(() => undefined), RENEW_MS);
    timer.unref();
    try {
      for (;;) {
        const { work } = await this.#next();
        if (work.case === "finished") {
          this.result = work.value;
          return;
        }
        if (work.case === "wait") {
          await sleep(milliseconds(work.value.retryAfter), signal);
        } else if (work.case !== undefined) {
          yield { kind: work.case, lease: work.value, finish: this.#finish(work.value.leaseId) } as Lease;
        }
      }
    } finally {
      clearInterval(timer);
      await this.#leave();
    }
  }

  /** Asks for work; joins again after the coordinator has forgotten the job. */
  async #next(): Promise<AcquireWorkResponse> {
    try {
      return await this.#ask(true);
    } catch (error) {
      if (!(error instanceof NotFoundError && error.reason === "UNKNOWN_JOB")) throw error;
      this.#held.clear();
      this.#finished = [];
      await registerJob(this.connection, this.job, this.clientId, this.options);
      return this.#ask(true);
    }
  }

  /** One question at a time: what it reports is reported once. */
  #ask(wantWork: boolean): Promise<AcquireWorkResponse> {
    const asked = this.#turn.then(async () => {
      const finished = [...this.#finished];
      const answer = await acquireWork(
        this.connection,
        { job: this.job.job, clientId: this.clientId, finished, held: [...this.#held], wantWork },
        this.options,
      );
      this.#finished.splice(0, finished.length);
      const { work } = answer;
      if (work.case === "chunk" || work.case === "evaluation" || work.case === "stage") {
        this.#held.add(work.value.leaseId);
      }
      return answer;
    });
    this.#turn = asked.catch(() => undefined);
    return asked;
  }

  #finish(leaseId: bigint) {
    return (report: Partial<ChunkReport & { metric: number; bestRestored: boolean }>): void => {
      if (!this.#held.delete(leaseId)) {
        throw new FailedPreconditionError(
          `lease ${leaseId} is not held any more: it was finished before, or the job began anew`,
        );
      }
      const { samples, ...others } = report;
      this.#finished.push(
        create(WorkReportSchema, { leaseId, ...others, samples: BigInt(samples ?? 0) }),
      );
    };
  }

  async #leave(): Promise<void> {
    try {
      const options = { timeoutMs: LEAVE_TIMEOUT_MS };
      await leaveJob(this.connection, this.job.job, this.clientId, options);
    } catch (error) {
      if (!(error instanceof DslideError)) throw error; // leases run out by themselves
    }
  }
}

// Training jobs, whose work the coordinator leases to trainers.

import { type MessageInitShape } from "@bufbuild/protobuf";
import { type Connection } from "./connection.js";
import { NotFoundError } from "./errors.js";
import {
  type AcquireWorkRequestSchema,
  type AcquireWorkResponse,
  CoordinatorService,
  type GetClusterStatusResponse,
  type JobSpecSchema,
  type JobStatus,
} from "./gen/dslide/v1/coordinator_pb.js";
import { type CallOptions } from "./transport.js";

/** A job, as its trainers agree on it. */
export type JobSpecInit = MessageInitShape<typeof JobSpecSchema>;
/** What AcquireWork asks for. */
export type WorkRequest = MessageInitShape<typeof AcquireWorkRequestSchema>;

const { method } = CoordinatorService;

/** Shards, models, jobs and checkpoints in one answer. */
export function status(
  connection: Connection,
  options: CallOptions,
): Promise<GetClusterStatusResponse> {
  return connection.coordinator.call(method.getClusterStatus, {}, options);
}

/** Opens a training job, or joins the one of that name; whether it was opened. */
export async function registerJob(
  connection: Connection,
  spec: JobSpecInit,
  clientId: Uint8Array,
  options: CallOptions = {},
): Promise<boolean> {
  const answer = await connection.coordinator.call(method.registerJob, { spec, clientId }, options);
  return answer.created;
}

/** Reports finished leases, renews those held, and asks for the next. */
export function acquireWork(
  connection: Connection,
  request: WorkRequest,
  options: CallOptions = {},
): Promise<AcquireWorkResponse> {
  return connection.coordinator.call(method.acquireWork, request, options);
}

/** Returns a trainer's leases. */
export async function leaveJob(
  connection: Connection,
  job: string,
  clientId: Uint8Array,
  options: CallOptions = {},
): Promise<void> {
  await connection.coordinator.once(method.leaveJob, { job, clientId }, options);
}

/** Ends a job: its trainers end well, and what was trained stays. Its status then. */
export async function cancelJob(
  connection: Connection,
  job: string,
  options: CallOptions,
): Promise<JobStatus> {
  return (await connection.coordinator.call(method.cancelJob, { job }, options)).job!;
}

/** Forgets a job that has ended. FailedPreconditionError (JOB_RUNS) for one that has not. */
export async function deleteJob(
  connection: Connection,
  job: string,
  options: CallOptions,
): Promise<void> {
  await connection.coordinator.call(method.deleteJob, { job }, options);
}

/** How far a job is. NotFoundError naming those that there are. */
export async function jobStatus(
  connection: Connection,
  job: string,
  options: CallOptions,
): Promise<JobStatus> {
  const { jobs } = await status(connection, options);
  const found = jobs.find((known) => known.job === job);
  if (found) return found;
  const names = jobs.map((known) => known.job).join(", ");
  throw new NotFoundError(`the cluster has no job "${job}"; it has ${names || "none"}`, {
    reason: "UNKNOWN_JOB",
  });
}

// What goes wrong, as errors that keep what the server said. docs/operate/errors.md says for each
// code and reason word what to do.

import { fromBinary } from "@bufbuild/protobuf";
import { type Metadata, type ServiceError, status } from "@grpc/grpc-js";
import {
  ErrorInfoSchema,
  RequestInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "./gen/google/rpc/status_pb.js";

/** What is known of an error beside its text. */
export interface ErrorFacts {
  reason?: string;
  metadata?: Readonly<Record<string, string>>;
  remedy?: string;
  retryAfterMs?: number;
  applied?: false | undefined;
  requestId?: string;
}

/** A call failed. The message names the thing, the value and the remedy. */
export class DslideError extends Error {
  /** The canonical status code, for example "NOT_FOUND". */
  readonly code: string;
  /** The reason word, for example "UNKNOWN_MODEL"; "" where there is none. */
  readonly reason: string;
  /** What the server adds to the reason word, by name. */
  readonly metadata: Readonly<Record<string, string>>;
  /** What this client advises; "" where the message says it all. */
  readonly remedy: string;
  /** After which the server wants the same request again; 0 where it does not. */
  readonly retryAfterMs: number;
  /** Of a change: false when it is certain that nothing changed, undefined when nobody knows. */
  readonly applied: false | undefined;
  /** By which the call is found in the server's log; "" where there was no call. */
  readonly requestId: string;

  constructor(message: string, facts: ErrorFacts = {}, code = "UNKNOWN") {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.reason = facts.reason ?? "";
    this.metadata = facts.metadata ?? {};
    this.remedy = facts.remedy ?? "";
    this.retryAfterMs = facts.retryAfterMs ?? 0;
    this.applied = "applied" in facts ? facts.applied : false;
    this.requestId = facts.requestId ?? "";
  }
}

type Kind = new (message: string, facts?: ErrorFacts) => DslideError;

/** The request is wrong: fix it. */
export class InvalidArgumentError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "INVALID_ARGUMENT");
  }
}
/** There is no such thing: create it first. */
export class NotFoundError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "NOT_FOUND");
  }
}
/** Another one has this name. */
export class AlreadyExistsError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "ALREADY_EXISTS");
  }
}
/** What the client believes of the cluster is not so (any more). */
export class FailedPreconditionError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "FAILED_PRECONDITION");
  }
}
/** The certificate's role, or its jobs, do not allow the call. */
export class PermissionDeniedError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "PERMISSION_DENIED");
  }
}
/** The server does not know who is calling. */
export class UnauthenticatedError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "UNAUTHENTICATED");
  }
}
/** The server is too busy, or out of memory or disk. */
export class ResourceExhaustedError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "RESOURCE_EXHAUSTED");
  }
}
/** Nobody answers, or the server is stopping. */
export class UnavailableError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "UNAVAILABLE");
  }
}
/** No answer in time. */
export class DeadlineExceededError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "DEADLINE_EXCEEDED");
  }
}
/** The first attempt is still running, or another operation is. */
export class AbortedError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "ABORTED");
  }
}
/** Confirmed updates, or a part of a checkpoint, are gone. */
export class DataLossError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "DATA_LOSS");
  }
}
/** The server is of a version that does not know the call. */
export class UnimplementedError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "UNIMPLEMENTED");
  }
}
/** A peer broke the protocol. */
export class InternalError extends DslideError {
  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts, "INTERNAL");
  }
}

const KINDS: Readonly<Record<string, Kind>> = {
  INVALID_ARGUMENT: InvalidArgumentError,
  NOT_FOUND: NotFoundError,
  ALREADY_EXISTS: AlreadyExistsError,
  FAILED_PRECONDITION: FailedPreconditionError,
  PERMISSION_DENIED: PermissionDeniedError,
  UNAUTHENTICATED: UnauthenticatedError,
  RESOURCE_EXHAUSTED: ResourceExhaustedError,
  UNAVAILABLE: UnavailableError,
  DEADLINE_EXCEEDED: DeadlineExceededError,
  ABORTED: AbortedError,
  DATA_LOSS: DataLossError,
  UNIMPLEMENTED: UnimplementedError,
  INTERNAL: InternalError,
};
// Answers of the server's program, never of the transport: they prove that nothing changed.
const REFUSALS = new Set([
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "FAILED_PRECONDITION",
  "OUT_OF_RANGE",
  "UNIMPLEMENTED",
  "PERMISSION_DENIED",
  "UNAUTHENTICATED",
]);

/** The error of a status; its text ends with the request's id where there is one. */
export function makeError(code: number, message: string, facts: ErrorFacts): DslideError {
  const name = status[code] ?? "UNKNOWN";
  const busy = name === "RESOURCE_EXHAUSTED" || name === "UNAVAILABLE";
  const known = facts.reason !== undefined && facts.reason !== "";
  const proven =
    REFUSALS.has(name) || (busy && known && facts.reason !== "LOG_FAILED");
  const text = facts.requestId ? `${message} (request ${facts.requestId})` : message;
  const all: ErrorFacts = { ...facts, applied: proven ? false : undefined };
  const kind = KINDS[name];
  return kind ? new kind(text, all) : new DslideError(text, all, name);
}

/** Protobuf's duration in milliseconds. */
export function milliseconds(duration: { seconds: bigint; nanos: number } | undefined): number {
  return duration ? Number(duration.seconds) * 1000 + duration.nanos / 1e6 : 0;
}

/** What the trailer of a failed call says. */
function factsOf(trailers: Metadata | undefined): ErrorFacts {
  const facts: ErrorFacts = {};
  const [trailer] = trailers?.get("grpc-status-details-bin") ?? [];
  if (!(trailer instanceof Uint8Array)) return facts;
  for (const { typeUrl, value } of fromBinary(StatusSchema, trailer).details) {
    if (typeUrl.endsWith("/google.rpc.ErrorInfo")) {
      const info = fromBinary(ErrorInfoSchema, value);
      if (info.domain !== "dslide") continue;
      facts.reason = info.reason;
      facts.metadata = info.metadata;
    } else if (typeUrl.endsWith("/google.rpc.RequestInfo")) {
      facts.requestId = fromBinary(RequestInfoSchema, value).requestId;
    } else if (typeUrl.endsWith("/google.rpc.RetryInfo")) {
      facts.retryAfterMs = milliseconds(fromBinary(RetryInfoSchema, value).retryDelay);
    }
  }
  return facts;
}

const SILENCE = /^(No connection established|Name resolution failed|Deadline exceeded|Connection)/;
const HANDSHAKE = /certificate|altname|SSL|TLS|ssl3|ECONNRESET|before secure/i;

/** The error of a failed call to `peer`; `remedy` is for when nobody answers. */
export function fromGrpc(
  error: ServiceError,
  peer: string,
  method: string,
  remedy: string,
  requestId: string,
): DslideError {
  const facts: ErrorFacts = { requestId, ...factsOf(error.metadata) };
  let message = `${peer}, ${method}: ${error.details}`;
  if (!facts.reason && SILENCE.test(error.details)) {
    const handshake = HANDSHAKE.test(error.details);
    facts.remedy = handshake
      ? "the handshake failed: check tls.ca, tls.cert and tls.key, and what the server was started with"
      : remedy;
    message += `; ${facts.remedy}`;
  }
  // This side's own cancellations are told apart before: the server did it, because it stops.
  const code = error.code === status.CANCELLED ? status.UNAVAILABLE : error.code;
  return makeError(code, message, facts);
}

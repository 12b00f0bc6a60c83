package dev.dslide.errors;

import io.grpc.Status;
import java.time.Duration;
import java.util.Map;

/**
 * What is known of something that went wrong. Texts are empty, and durations 0, where there is nothing
 * to say.
 *
 * @param code of gRPC
 * @param reason the reason word, for example "UNKNOWN_MODEL"
 * @param metadata what the server said beside the reason
 * @param message names the thing, the value and the remedy
 * @param remedy what to do where no server has answered
 * @param retryAfter after this the server wants the same request again; 0 where it does not
 * @param maybeApplied of a change: nobody knows whether it was applied
 * @param peer who was called
 * @param method what was called
 * @param requestId the id by which the call is found in the server's log
 * @param last another attempt would fail in the same way
 * @param cause what lies below it, or null
 */
public record Failure(Status.Code code, String reason, Map<String, String> metadata, String message, String remedy,
    Duration retryAfter, boolean maybeApplied, String peer, String method, String requestId, boolean last,
    Throwable cause) {

  /** A failure without a call. */
  public static Failure of(Status.Code code, String message) {
    return new Failure(code, "", Map.of(), message, "", Duration.ZERO, false, "", "", "", false, null);
  }

  /** The same with a reason word. */
  public Failure withReason(String word) {
    return new Failure(code, word, metadata, message, remedy, retryAfter, maybeApplied, peer, method, requestId, last,
        cause);
  }

  /** The same with another code. */
  public Failure withCode(Status.Code other) {
    return new Failure(other, reason, metadata, message, remedy, retryAfter, maybeApplied, peer, method, requestId,
        last, cause);
  }

  /** The same of a change of which it is known, or not known, that it was not applied. */
  public Failure withMaybeApplied(boolean maybe) {
    return new Failure(code, reason, metadata, message, remedy, retryAfter, maybe, peer, method, requestId, last,
        cause);
  }

  /** The same with what lies below it. */
  public Failure withCause(Throwable below) {
    return new Failure(code, reason, metadata, message, remedy, retryAfter, maybeApplied, peer, method, requestId,
        last, below);
  }

  /** The same of a call. */
  public Failure ofCall(String called, String by, String id) {
    return new Failure(code, reason, metadata, message, remedy, retryAfter, maybeApplied, called, by, id, last, cause);
  }

  /** The exception of its code. */
  public DslideException exception() {
    return switch (code) {
      case CANCELLED -> new CancelledException(this);
      case INVALID_ARGUMENT, OUT_OF_RANGE -> new InvalidArgumentException(this);
      case NOT_FOUND -> new NotFoundException(this);
      case ALREADY_EXISTS -> new AlreadyExistsException(this);
      case FAILED_PRECONDITION -> new FailedPreconditionException(this);
      case PERMISSION_DENIED -> new PermissionDeniedException(this);
      case UNAUTHENTICATED -> new UnauthenticatedException(this);
      case RESOURCE_EXHAUSTED -> new ResourceExhaustedException(this);
      case UNAVAILABLE -> new UnavailableException(this);
      case DEADLINE_EXCEEDED -> new DeadlineExceededException(this);
      case ABORTED -> new AbortedException(this);
      case DATA_LOSS -> new DataLossException(this);
      case UNIMPLEMENTED -> new UnimplementedException(this);
      default -> new InternalException(this);
    };
  }

  String text() {
    var text = new StringBuilder();
    if (!method.isEmpty()) {
      text.append(peer).append(", ").append(method).append(": ");
    }
    text.append(message.isEmpty() ? code.toString() : message);
    if (!remedy.isEmpty()) {
      text.append("; ").append(remedy);
    }
    if (!requestId.isEmpty()) {
      text.append(" (request ").append(requestId).append(')');
    }
    return text.toString();
  }
}

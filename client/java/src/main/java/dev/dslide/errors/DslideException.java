package dev.dslide.errors;

import io.grpc.Status;
import java.time.Duration;
import java.util.Map;

/**
 * What went wrong: the class says the code, {@link #reason} the reason word, the message names the
 * thing, the value and the remedy.
 */
public abstract sealed class DslideException extends RuntimeException
    permits AbortedException, AlreadyExistsException, CancelledException, DataLossException,
        DeadlineExceededException, FailedPreconditionException, InternalException, InvalidArgumentException,
        NotFoundException, PermissionDeniedException, ResourceExhaustedException, UnauthenticatedException,
        UnavailableException, UnimplementedException {

  private final transient Failure failure;

  DslideException(Failure failure) {
    super(failure.text(), failure.cause());
    this.failure = failure;
  }

  /** All that is known of it. */
  public Failure failure() {
    return failure;
  }

  /** The code of gRPC. */
  public Status.Code code() {
    return failure.code();
  }

  /** The reason word, for example "UNKNOWN_MODEL"; empty where there is none. */
  public String reason() {
    return failure.reason();
  }

  /** What the server said beside the reason. */
  public Map<String, String> metadata() {
    return failure.metadata();
  }

  /** After this the server wants the same request again; 0 where it does not. */
  public Duration retryAfter() {
    return failure.retryAfter();
  }

  /** Of a change: nobody knows whether it was applied. False: it was not. */
  public boolean maybeApplied() {
    return failure.maybeApplied();
  }

  /** The id by which the call is found in the server's log; empty where there was no call. */
  public String requestId() {
    return failure.requestId();
  }
}

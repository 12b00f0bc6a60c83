package dev.dslide;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RequestInfo;
import com.google.rpc.RetryInfo;
import dev.dslide.errors.DslideException;
import dev.dslide.errors.Failure;
import dev.dslide.v1.StepError;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.security.GeneralSecurityException;
import java.util.Map;
import java.util.Objects;
import javax.net.ssl.SSLException;

/** Makes exceptions of what servers, gRPC and this client say. */
final class Failures {
  private Failures() {}

  static DslideException of(Status.Code code, String format, Object... arguments) {
    return Failure.of(code, arguments.length == 0 ? format : format.formatted(arguments)).exception();
  }

  static DslideException invalid(String format, Object... arguments) {
    return of(Status.Code.INVALID_ARGUMENT, format, arguments);
  }

  static DslideException internal(String format, Object... arguments) {
    return of(Status.Code.INTERNAL, format, arguments);
  }

  /** Whether a server's program, not the transport, has refused the request. */
  static boolean provesNothingApplied(Status.Code code, String reason) {
    return switch (code) {
      case INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED,
          PERMISSION_DENIED, UNAUTHENTICATED -> true;
      case RESOURCE_EXHAUSTED, UNAVAILABLE -> !reason.isEmpty() && !reason.equals("LOG_FAILED");
      default -> false;
    };
  }

  /** The exception of a failed call. */
  static DslideException ofCall(Peer peer, String method, String requestId, StatusRuntimeException e) {
    Status.Code code = e.getStatus().getCode();
    if (code == Status.Code.CANCELLED && !Context.current().isCancelled() && !Thread.currentThread().isInterrupted()) {
      code = Status.Code.UNAVAILABLE; // the server takes calls back when it stops
    }
    String reason = "";
    Map<String, String> metadata = Map.of();
    java.time.Duration retryAfter = java.time.Duration.ZERO;
    var details = StatusProto.fromThrowable(e);
    for (Any detail : details == null ? java.util.List.<Any>of() : details.getDetailsList()) {
      try {
        if (detail.is(ErrorInfo.class)) {
          var info = detail.unpack(ErrorInfo.class);
          reason = info.getDomain().equals("dslide") ? info.getReason() : reason;
          metadata = info.getDomain().equals("dslide") ? info.getMetadataMap() : metadata;
        } else if (detail.is(RetryInfo.class)) {
          retryAfter = duration(detail.unpack(RetryInfo.class).getRetryDelay());
        } else if (detail.is(RequestInfo.class)) {
          requestId = detail.unpack(RequestInfo.class).getRequestId();
        }
      } catch (InvalidProtocolBufferException malformed) {
        continue; // the code and the message say enough
      }
    }
    // The transport adds lines about itself.
    String said = Objects.requireNonNullElse(e.getStatus().getDescription(), "").lines().findFirst().orElse("");
    String below = below(e.getStatus().getCause());
    boolean nobody = reason.isEmpty() && (code == Status.Code.UNAVAILABLE || code == Status.Code.DEADLINE_EXCEEDED);
    boolean handshake = has(e.getStatus().getCause(), SSLException.class);
    String remedy = !nobody ? "" : handshake ? "the handshake failed: check Tls.ca, Tls.cert and Tls.key, and what "
        + "the server was started with; " + peer.remedy() : peer.remedy();
    return new Failure(code, reason, metadata, below.isEmpty() ? said : said + ": " + below, remedy, retryAfter,
        !provesNothingApplied(code, reason), peer.name(), method, requestId,
        // This side refuses the server's certificate.
        has(e.getStatus().getCause(), GeneralSecurityException.class), e).exception();
  }

  private static boolean has(Throwable cause, Class<?> kind) {
    for (; cause != null; cause = cause.getCause()) {
      if (kind.isInstance(cause)) {
        return true;
      }
    }
    return false;
  }

  /** What the network or TLS says. */
  private static String below(Throwable cause) {
    if (cause == null) {
      return "";
    }
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause.toString();
  }

  /** The exception of an answer inside a stream, or of an operation. */
  static DslideException ofStep(Peer peer, String method, String requestId, StepError said) {
    Status.Code code = Status.fromCodeValue(said.getCode()).getCode();
    return new Failure(code, said.getReason(), Map.of(), said.getMessage(), "", duration(said.getRetryAfter()),
        !provesNothingApplied(code, said.getReason()), peer.name(), method, requestId, false, null).exception();
  }

  static java.time.Duration duration(Duration said) {
    return java.time.Duration.ofSeconds(said.getSeconds(), said.getNanos());
  }

  /** Whether the same request may be sent again: nobody has answered, or the server asks for it later. */
  static boolean mayRepeat(DslideException e) {
    return e.code() == Status.Code.UNAVAILABLE && !e.failure().last()
        || e.code() == Status.Code.RESOURCE_EXHAUSTED && !e.retryAfter().isZero();
  }
}

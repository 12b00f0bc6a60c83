package dev.dslide;

import dev.dslide.errors.NotFoundException;
import dev.dslide.v1.CoordinatorServiceGrpc;
import dev.dslide.v1.GetOperationRequest;
import dev.dslide.v1.Operation;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.function.Function;

/** Waits for what the coordinator does by itself once it was asked for. */
final class Operations {
  // For so long one question waits for the end of an operation.
  private static final Duration TURN = Duration.ofSeconds(30);
  // After an answer that came too early.
  private static final Duration PAUSE = Duration.ofMillis(200);

  private Operations() {}

  /**
   * Starts an operation and waits for its end, an hour at most; again when its coordinator is gone.
   */
  static <Q, R> Operation finish(Peer coordinator, MethodDescriptor<Q, R> method, Q request,
      Function<R, Operation> started) {
    return coordinator.repeat(Peer.within(Peer.LONG_TIMEOUT), limit -> {
      Operation operation = started.apply(coordinator.call(method, request));
      while (!operation.getDone()) {
        if (limit.isExpired()) {
          throw Peer.ended(method.getBareMethodName() + " goes on; its end was waited for in vain");
        }
        operation = look(coordinator, operation.getOperationId());
      }
      if (operation.hasError()) {
        throw Failures.ofStep(coordinator, method.getBareMethodName(), "", operation.getError());
      }
      return operation;
    });
  }

  private static Operation look(Peer coordinator, String id) {
    long asked = System.nanoTime();
    var request = GetOperationRequest.newBuilder().setOperationId(id)
        .setWait(com.google.protobuf.Duration.newBuilder().setSeconds(TURN.toSeconds())).build();
    Operation operation;
    try {
      operation = coordinator.call(CoordinatorServiceGrpc.getGetOperationMethod(), request,
          TURN.plus(coordinator.options().timeout())).getOperation();
    } catch (NotFoundException e) {
      // The coordinator was restarted: the work may be repeated.
      throw e.failure().withCode(Status.Code.UNAVAILABLE).exception();
    }
    boolean early = System.nanoTime() - asked < TURN.toNanos();
    if (!operation.getDone() && early && !Peer.sleep(PAUSE)) {
      throw Peer.ended("operation " + id + " goes on; its end was not waited for");
    }
    return operation;
  }
}

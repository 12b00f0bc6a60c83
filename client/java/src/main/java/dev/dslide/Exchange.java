package dev.dslide;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.util.ArrayDeque;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * One streaming call. All that gRPC has to say runs in the thread that sends or receives: messages are
 * read there, from the memory in which they have arrived, and nothing of a call outlives {@link #close}.
 *
 * <p>Belongs to one thread at a time.
 */
final class Exchange<Q, R> implements AutoCloseable {
  // Of messages that were given to the transport and not sent: some of a scatter, so that it never waits.
  private static final int QUEUED_BYTES = 4 << 20;
  private static final int QUEUED_MESSAGES = 4;

  private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
  private final ArrayDeque<R> messages = new ArrayDeque<>();
  private final ClientCall<Q, R> call;
  private Status status; // null while the call runs
  private Metadata trailers;

  /** Opens it. deadline: null for a stream that lives as long as it is wanted. */
  Exchange(Channel channel, MethodDescriptor<Q, R> method, Deadline deadline, Metadata headers) {
    Executor inThisThread = tasks::add;
    var options = CallOptions.DEFAULT.withExecutor(inThisThread).withOnReadyThreshold(QUEUED_BYTES);
    call = channel.newCall(method, deadline == null ? options : options.withDeadline(deadline));
    call.start(new Listener(), headers);
    call.request(QUEUED_MESSAGES);
  }

  private final class Listener extends ClientCall.Listener<R> {
    @Override
    public void onMessage(R message) {
      messages.add(message);
    }

    @Override
    public void onClose(Status ended, Metadata said) {
      status = ended;
      trailers = said;
    }
  }

  /**
   * Sends a message once the transport has room for it: it is written out when this returns. False when
   * the call has ended: {@link #receive} says why.
   */
  boolean send(Q message, Deadline limit) {
    runUntil(() -> call.isReady() || status != null, limit);
    if (status == null) {
      call.sendMessage(message);
    }
    return status == null;
  }

  /** Sends the only message of a method that takes one: gRPC does not say when it is ready for that. */
  void sendOnly(Q message) {
    call.sendMessage(message);
    call.halfClose();
  }

  void halfClose() {
    if (status == null) {
      call.halfClose();
    }
  }

  /**
   * The next message; null at the end.
   *
   * @throws StatusRuntimeException the call has failed, or the limit, the context or an interruption
   *     ends the waiting
   */
  R receive(Deadline limit) {
    runUntil(() -> !messages.isEmpty() || status != null, limit);
    R message = messages.poll();
    if (message != null) {
      if (status == null) {
        call.request(1);
      }
      return message;
    }
    if (!status.isOk()) {
      throw status.asRuntimeException(trailers);
    }
    return null;
  }

  private void runUntil(BooleanSupplier done, Deadline limit) {
    try {
      while (!done.getAsBoolean()) {
        if (Context.current().isCancelled()) {
          throw Status.CANCELLED.withDescription("the context was cancelled").asRuntimeException();
        }
        Runnable task = tasks.poll(limit.timeRemaining(TimeUnit.NANOSECONDS), TimeUnit.NANOSECONDS);
        if (task == null) {
          throw Status.DEADLINE_EXCEEDED.withDescription("no answer in time").asRuntimeException();
        }
        task.run();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw Status.CANCELLED.withDescription("the thread was interrupted").asRuntimeException();
    }
  }

  /** Wakes the waiting thread, which then looks at its context. */
  void wake() {
    tasks.add(() -> {});
  }

  /** Ends the call. What has arrived is let go. */
  @Override
  public void close() {
    if (status != null) {
      return;
    }
    call.cancel("not wanted any more", null);
    boolean interrupted = Thread.interrupted();
    Deadline limit = Deadline.after(Peer.LEAVING_LIMIT.toNanos(), TimeUnit.NANOSECONDS);
    try {
      // Not as the context says: it may have ended.
      Context.ROOT.run(() -> runUntil(() -> status != null, limit));
    } catch (StatusRuntimeException e) {
      status = e.getStatus();
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}

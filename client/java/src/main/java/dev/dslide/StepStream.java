package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.errors.DataLossException;
import dev.dslide.errors.DslideException;
import dev.dslide.v1.HelloResponse;
import dev.dslide.v1.ShardServiceGrpc;
import dev.dslide.v1.StepRequest;
import dev.dslide.v1.StepResponse;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;

/**
 * The hot path to one shard: a long-lived stream of operations, one at a time, mended when it breaks.
 * What has no answer is sent again under its sequence: the shard applies nothing twice and repeats the
 * answer that it had given. Belongs to one thread at a time.
 */
final class StepStream {
  private final Shard shard;
  private final String model;
  private final long topology;
  private final Sequence sequence;
  private boolean packed;
  private String requestId = ""; // of the stream
  private Exchange<StepRequest, StepResponse> current; // null: broken, or not yet open

  StepStream(Shard shard, String model, long topology, String job, ByteString clientId) {
    this.shard = shard;
    this.model = model;
    this.topology = topology;
    sequence = new Sequence(shard, job, clientId);
  }

  Peer peer() {
    return shard.peer();
  }

  /** Whether the shard reads packed ids. */
  boolean packed() {
    return packed;
  }

  void open() {
    connect(Peer.within(peer().options().timeout()));
  }

  private void connect(Deadline limit) {
    HelloResponse hello = sequence.greet(limit);
    packed = hello.getCapabilitiesList().contains("packed-steps");
    requestId = peer().newRequestId();
    // It lives longer than the call that opens it.
    Context.ROOT.run(() -> current = new Exchange<>(peer().channel(), ShardServiceGrpc.getStepMethod(), null,
        Peer.headers(requestId)));
  }

  private void disconnect() {
    if (current != null) {
      current.close();
      current = null;
    }
  }

  /**
   * Does one operation, exactly once. One whose error leaves it open is given up: no later one has its
   * number, and once a later one was heard it cannot be applied any more.
   */
  StepResponse run(StepRequest.Builder request) {
    boolean succeeded = false;
    try {
      StepResponse response = untilSettled(request, Peer.within(peer().options().timeout()));
      succeeded = true;
      return response;
    } finally {
      sequence.settle(succeeded);
    }
  }

  private StepResponse untilSettled(StepRequest.Builder request, Deadline limit) {
    long start = System.nanoTime();
    boolean maybe = false;
    for (int number = 1;; number++) {
      DslideException e;
      try {
        return attempt(request, limit);
      } catch (DslideException failed) {
        e = failed;
      }
      boolean busy = Failures.mayRepeat(e) && Failures.provesNothingApplied(e.code(), e.reason())
          || e.code() == Status.Code.ABORTED;
      boolean broken = current == null;
      maybe |= broken && e.maybeApplied();
      var pause = Peer.pause(e, number);
      boolean late = !busy && peer().isLate(start, pause);
      boolean again = busy || broken || Sequence.needsGreeting(e);
      if (!again || e instanceof DataLossException || late || !peer().sleep(pause, limit)) {
        if (limit.isExpired() || Context.current().isCancelled() || Thread.currentThread().isInterrupted()) {
          disconnect(); // the answer of what is given up may still come
        }
        throw e.failure().withMaybeApplied(maybe && (busy || broken)).exception();
      }
      if (!busy && !broken) {
        disconnect();
      }
    }
  }

  /**
   * Sends the operation and takes its answer. After an exception the stream is open only where the shard
   * has answered.
   */
  private StepResponse attempt(StepRequest.Builder request, Deadline limit) {
    if (current == null) {
      try {
        connect(limit);
      } catch (DslideException e) {
        throw e.failure().withMaybeApplied(false).exception(); // this time it was not even sent
      }
    }
    request.setEnvelope(sequence.envelope(model, topology));
    var exchange = current;
    Context context = Context.current();
    Context.CancellationListener waker = ended -> exchange.wake();
    context.addListener(waker, Runnable::run);
    try {
      exchange.send(request.build(), limit);
      return answer(exchange, limit);
    } catch (StatusRuntimeException e) {
      disconnect();
      throw Failures.ofCall(peer(), "Step", requestId, e);
    } finally {
      context.removeListener(waker);
    }
  }

  private StepResponse answer(Exchange<StepRequest, StepResponse> exchange, Deadline limit) {
    while (true) {
      StepResponse response = exchange.receive(limit);
      if (response == null) {
        throw Status.UNAVAILABLE.withDescription("the shard has ended the stream").asRuntimeException();
      }
      if (response.getSequence() < sequence.next()) {
        continue; // of an operation that was given up
      }
      if (response.getSequence() > sequence.next()) {
        throw Status.INTERNAL.withDescription("it answered request " + response.getSequence() + " instead of "
            + sequence.next() + ": it does not keep the order").asRuntimeException();
      }
      if (response.hasError()) {
        throw Failures.ofStep(peer(), "Step", requestId, response.getError());
      }
      return response;
    }
  }

  /** Ends the stream and closes the client: the shard frees its contexts and answers. */
  void close() {
    disconnect();
    sequence.close();
  }
}

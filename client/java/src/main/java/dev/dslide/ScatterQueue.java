package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.errors.DataLossException;
import dev.dslide.errors.DslideException;
import dev.dslide.v1.ScatterRequest;
import dev.dslide.v1.ScatterResponse;
import dev.dslide.v1.ShardServiceGrpc;
import io.grpc.Deadline;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Sends the scatters of one client to one shard, one at a time and each exactly once. Threads may share
 * it.
 */
final class ScatterQueue {
  private static final int CHUNK_BYTES = 1 << 20;
  private static final int MAX_CHUNK_ROWS = 1 << 16;
  private static final MethodDescriptor<ScatterMessage, ScatterResponse> METHOD =
      ShardServiceGrpc.getScatterMethod().toBuilder(ScatterMessage.MARSHALLER,
          ShardServiceGrpc.getScatterMethod().getResponseMarshaller()).build();

  private final Shard shard;
  private final ReentrantLock turn = new ReentrantLock(true);
  private final Sequence sequence; // guarded by turn

  ScatterQueue(Shard shard, String job, ByteString clientId) {
    this.shard = shard;
    sequence = new Sequence(shard, job, clientId);
  }

  /** What one shard gets of a scatter. */
  record Request(RowChange change, Part part, String model, long topology) {}

  /** Sends a scatter until it is applied, refused, or the time is over. */
  void apply(Request request) {
    Deadline limit = Peer.within(shard.peer().options().timeout());
    try {
      if (!turn.tryLock(limit.timeRemaining(TimeUnit.NANOSECONDS), TimeUnit.NANOSECONDS)) {
        throw Peer.ended(shard.peer().name() + ": the time ended while earlier scatters were sent");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw Peer.ended(shard.peer().name() + ": the thread was interrupted while earlier scatters were sent");
    }
    try {
      if (!sequence.isGreeted()) {
        try {
          sequence.greet(limit);
        } catch (DslideException e) {
          throw e.failure().withMaybeApplied(false).exception(); // it was not even sent
        }
      }
      boolean applied = false;
      try {
        untilSettled(request, limit);
        applied = true;
      } finally {
        sequence.settle(applied);
      }
    } finally {
      turn.unlock();
    }
  }

  private void untilSettled(Request request, Deadline limit) {
    long start = System.nanoTime();
    boolean maybe = false;
    for (int number = 1;; number++) {
      DslideException e;
      try {
        attempt(request, limit);
        return;
      } catch (DslideException failed) {
        e = failed;
      }
      boolean busy = !e.maybeApplied() && Failures.mayRepeat(e);
      boolean again = busy || e.maybeApplied() && !e.failure().last() || Sequence.needsGreeting(e)
          || e.reason().equals("INCOMPLETE");
      maybe |= e.maybeApplied();
      var pause = Peer.pause(e, number);
      boolean late = !busy && shard.peer().isLate(start, pause);
      if (!again || late || !shard.peer().sleep(pause, limit)) {
        throw e.failure().withMaybeApplied(maybe && again).exception();
      }
      if (busy) {
        continue;
      }
      try {
        sequence.greet(limit); // when the scatter was applied, sending it again gets its answer
      } catch (DataLossException lost) {
        throw lost;
      } catch (DslideException away) {
        continue;
      }
    }
  }

  private void attempt(Request request, Deadline limit) {
    String id = shard.peer().newRequestId();
    try (var exchange = new Exchange<>(shard.peer().channel(), METHOD, limit, Peer.headers(id))) {
      int size = request.part().size();
      int rows = (int) Math.max(1, Math.min(MAX_CHUNK_ROWS, CHUNK_BYTES / (4 * request.change().table().getDim())));
      for (int first = 0; first < size; first += rows) {
        var message = new ScatterMessage(first == 0 ? first(request) : ScatterRequest.getDefaultInstance(),
            request.change(), request.part(), first, Math.min(first + rows, size));
        if (!exchange.send(message, limit)) {
          break; // the answer says why
        }
      }
      exchange.halfClose();
      boolean answered = exchange.receive(limit) != null;
      if (!answered || exchange.receive(limit) != null) { // the second time for the call's status
        throw Failures.internal("%s answered a scatter with no message, or with several", shard.peer().name());
      }
    } catch (StatusRuntimeException e) {
      throw Failures.ofCall(shard.peer(), "Scatter", id, e);
    }
  }

  /** What the first message says beside its rows. */
  private ScatterRequest first(Request request) {
    RowChange change = request.change();
    var first = ScatterRequest.newBuilder().setEnvelope(sequence.envelope(request.model(), request.topology()))
        .setTable(change.table().getName()).setMode(change.mode().word()).setTotalRows(request.part().size());
    if (change.rate() != 0) {
      first.setLearningRate(change.rate());
    }
    return first.build();
  }

  /** Closes the client at the shard, if that has heard of it. No scatter may run. */
  void close() {
    sequence.close();
  }
}

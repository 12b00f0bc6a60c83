package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.errors.DslideException;
import dev.dslide.errors.Failure;
import dev.dslide.v1.CloseClientRequest;
import dev.dslide.v1.HelloRequest;
import dev.dslide.v1.HelloResponse;
import dev.dslide.v1.RequestEnvelope;
import dev.dslide.v1.ShardServiceGrpc;
import io.grpc.Deadline;
import io.grpc.Status;

/** Counts one client's commands to one shard. Belongs to one thread at a time. */
final class Sequence {
  private final Shard shard;
  private final String job;
  private final ByteString clientId;
  private long next = 1; // of the next command
  private long confirmed; // the highest that was answered without an error
  private long generation; // of the last greeting; 0: there was none

  Sequence(Shard shard, String job, ByteString clientId) {
    this.shard = shard;
    this.job = job;
    this.clientId = clientId;
  }

  static ByteString newClientId() {
    return ByteString.copyFrom(Peer.randomBytes(16));
  }

  /** Says Hello. Numbers below the next one are given up by the envelopes, whatever became of them. */
  HelloResponse greet(Deadline limit) {
    var request = HelloRequest.newBuilder().setJob(job).setClientId(clientId)
        .setAcknowledgedSequence(confirmed).build();
    HelloResponse hello = shard.peer().repeat(limit, until -> shard.peer().once(ShardServiceGrpc.getHelloMethod(),
        request, until));
    if (hello.getNextSequence() <= confirmed || hello.getNextSequence() > next + 1) {
      throw Failure.of(Status.Code.DATA_LOSS, ("%s expects update %d of this client, but %d were confirmed: it was "
          + "restarted and has lost updates; restore a checkpoint and start the training again").formatted(
              shard.peer().name(), hello.getNextSequence(), confirmed)).withReason("LOST_UPDATES").exception();
    }
    generation = hello.getGeneration();
    return hello;
  }

  boolean isGreeted() {
    return generation != 0;
  }

  long next() {
    return next;
  }

  /** The envelope of the command with the next number. All below it are answered or given up. */
  RequestEnvelope envelope(String model, long topology) {
    return RequestEnvelope.newBuilder().setJob(job).setClientId(clientId).setSequence(next).setFirstIncomplete(next)
        .setGeneration(generation).setTopologyVersion(topology).setModel(model).build();
  }

  /**
   * The next number is used up: by a success, or given up. One that is given up is never another
   * command's, and once a later one was heard it cannot be applied any more.
   */
  void settle(boolean succeeded) {
    confirmed = succeeded ? next : confirmed;
    next++;
  }

  /** Closes the client at the shard, if that has heard of it. */
  void close() {
    if (isGreeted()) {
      shard.peer().sayGoodBye(ShardServiceGrpc.getCloseClientMethod(),
          CloseClientRequest.newBuilder().setJob(job).setClientId(clientId).build());
    }
  }

  /** Whether the shard was restarted since the last greeting, or does not know this client yet. */
  static boolean needsGreeting(DslideException e) {
    return e.reason().equals("STALE_GENERATION") || e.reason().equals("UNKNOWN_CLIENT");
  }
}

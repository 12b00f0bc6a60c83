package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.errors.DeadlineExceededException;
import dev.dslide.errors.UnavailableException;
import dev.dslide.v1.GetServerInfoRequest;
import dev.dslide.v1.GetServerInfoResponse;
import dev.dslide.v1.ShardServiceGrpc;
import io.grpc.Status;
import java.time.Duration;

/** The client's side of one shard. Threads may share it. */
final class Shard {
  private static final String REMEDY =
      "see whether the shard runs (dslide status, its log), and start it again with its data directory";

  private final Peer peer;
  private final int ordinal;
  private final ScatterQueue scatters;

  Shard(Options options, String address, int ordinal, ByteString clientId) {
    peer = new Peer(options, address, "shard " + ordinal, REMEDY);
    this.ordinal = ordinal;
    scatters = new ScatterQueue(this, options.job(), clientId);
  }

  Peer peer() {
    return peer;
  }

  int ordinal() {
    return ordinal;
  }

  ScatterQueue scatters() {
    return scatters;
  }

  /**
   * Refuses a shard of another minor version. One that is away is told of by the calls that need it.
   */
  void checkVersion() {
    Options options = peer.options();
    Duration shorter = options.timeout().compareTo(options.patience()) < 0 ? options.timeout() : options.patience();
    GetServerInfoResponse info;
    try {
      info = peer.once(ShardServiceGrpc.getGetServerInfoMethod(), GetServerInfoRequest.getDefaultInstance(),
          Peer.within(shorter));
    } catch (UnavailableException | DeadlineExceededException e) {
      return;
    }
    if (!minor(info.getVersion()).equals(minor(Cluster.VERSION))) {
      throw Failures.of(Status.Code.FAILED_PRECONDITION, "%s is of version %s, this client of %s: use the client of "
          + "the cluster's version", peer.name(), info.getVersion(), Cluster.VERSION);
    }
  }

  private static String minor(String version) {
    int second = version.indexOf('.', version.indexOf('.') + 1);
    return second < 0 ? version : version.substring(0, second);
  }

  /** Closes the client at the shard, and the connection. */
  void close() {
    scatters.close();
    peer.close();
  }
}

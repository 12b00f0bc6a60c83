package dev.dslide;

import dev.dslide.v1.GetModelRequest;
import dev.dslide.v1.GetModelResponse;
import dev.dslide.v1.PredictMode;
import dev.dslide.v1.PredictQuery;
import dev.dslide.v1.PredictRequest;
import dev.dslide.v1.PredictResult;
import dev.dslide.v1.PredictServiceGrpc;
import java.util.List;

/** A client of {@code dslide serve}. Threads may share it. */
public final class Predictor implements AutoCloseable {
  private final Peer peer;

  private Predictor(Peer peer) {
    this.peer = peer;
  }

  /** Connects in plaintext to a server on this machine: {@link Options#DEFAULT}. */
  public static Predictor connect(String address) {
    return connect(address, Options.DEFAULT);
  }

  /** Connects to a {@code dslide serve} at "host:port" or "unix:PATH", when it is first asked. */
  public static Predictor connect(String address, Options options) {
    return new Predictor(new Peer(options, address, "dslide serve",
        "start dslide serve --listen " + address + ", or name the address of one that runs"));
  }

  @Override
  public void close() {
    peer.close();
  }

  /** What is served, and which inputs and modes it takes. */
  public GetModelResponse model() {
    return peer.call(PredictServiceGrpc.getGetModelMethod(), GetModelRequest.getDefaultInstance());
  }

  /**
   * The best labels of each query, in the order of the queries, as the server is set to rank them.
   *
   * @param queries 1 to 256 of them, see {@link Query}
   * @param topK labels of each query, [1, 1024]
   */
  public List<PredictResult> predict(List<PredictQuery> queries, int topK) {
    return predict(queries, topK, PredictMode.PREDICT_MODE_UNSPECIFIED);
  }

  /** The same in a mode. */
  public List<PredictResult> predict(List<PredictQuery> queries, int topK, PredictMode mode) {
    return peer.call(PredictServiceGrpc.getPredictMethod(),
        PredictRequest.newBuilder().addAllQueries(queries).setTopK(topK).setMode(mode).build()).getResultsList();
  }
}

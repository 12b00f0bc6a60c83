package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.v1.DenseGather;
import dev.dslide.v1.EmbedForward;
import dev.dslide.v1.Matrix;
import dev.dslide.v1.ReadRequest;
import dev.dslide.v1.RowBlock;
import dev.dslide.v1.ShardServiceGrpc;
import dev.dslide.v1.StepRequest;
import dev.dslide.v1.StepResponse;
import dev.dslide.v1.TableSpec;
import io.grpc.Status;
import java.util.List;

/** The forward pass of an embedding, any number of dense layers and a head, outside of any step. */
final class Network {
  private final Model model;
  private final Cluster cluster;
  private final TableSpec embedding;
  private final List<TableSpec> dense;

  Network(Model model) {
    this.model = model;
    cluster = model.cluster();
    List<TableSpec> tables = model.spec().getTablesList();
    int last = tables.size() - 1;
    boolean fits = last >= 1 && tables.get(0).getRole().equals("embedding")
        && tables.get(last).getRole().equals("head")
        && tables.subList(1, last).stream().allMatch(table -> table.getRole().equals("dense"));
    if (!fits) {
      throw Failures.of(Status.Code.UNIMPLEMENTED, "%s: this client computes hidden vectors of an embedding, dense "
          + "layers and a head alone; ask dslide serve for its predictions", model);
    }
    embedding = tables.get(0);
    dense = tables.subList(1, last);
  }

  float[] hidden(Sparse features) {
    Sparse[] parts = sliceFeatures(model, embedding, features);
    Matrix[] sums = new Matrix[parts.length];
    cluster.shards().each(shard -> sums[shard.ordinal()] = read(shard, StepRequest.newBuilder().setEmbedForward(
        embedForward(embedding, parts[shard.ordinal()], false).setAveraged(averages(embedding))))
        .getEmbedForward().getPartial());
    float[] hidden = Matrices.sum(cluster.shards(), sums, features.size(), (int) embedding.getDim());
    rectify(hidden);
    for (TableSpec table : dense) {
      hidden = layer(table, hidden);
    }
    if (model.halves()) {
      Numbers.roundToBf16(hidden);
    }
    return hidden;
  }

  private StepResponse read(Shard shard, StepRequest.Builder operation) {
    return shard.peer().call(ShardServiceGrpc.getReadMethod(), ReadRequest.newBuilder()
        .setModel(model.spec().getName()).setTopologyVersion(cluster.owners().topology()).setOperation(operation)
        .build()).getResult();
  }

  private static boolean averages(TableSpec table) {
    return table.getOptimizer().getAverageDecay() > 0;
  }

  static void rectify(float[] x) {
    for (int i = 0; i < x.length; i++) {
      x[i] = Math.max(x[i], 0);
    }
  }

  /** max(W h + b, 0) of each sample; each shard holds some rows of W. */
  private float[] layer(TableSpec table, float[] hidden) {
    RowBlock[] blocks = new RowBlock[cluster.numShards()];
    cluster.shards().each(shard -> blocks[shard.ordinal()] = read(shard, StepRequest.newBuilder().setDenseGather(
        DenseGather.newBuilder().setTable(table.getName()).setAveraged(averages(table)))).getDenseGather().getRows());
    float[] out = new DenseLayer(table, cluster.shards(), blocks).forward(hidden);
    rectify(out);
    return out;
  }

  /** Each shard's part of the features, with the bias row. */
  static Sparse[] sliceFeatures(Model model, TableSpec table, Sparse features) {
    long rows = table.getRows();
    long bias = !table.getBiasRow() ? -1 : (table.getBaseRows() == 0 ? rows : table.getBaseRows()) - 1;
    features.check(table, table.getBiasRow() ? rows - 1 : rows, "features");
    return features.slice(model.cluster().owners().of(table), model.cluster().numShards(), bias);
  }

  static EmbedForward.Builder embedForward(TableSpec table, Sparse part, boolean packed) {
    var request = EmbedForward.newBuilder().setTable(table.getName()).setBatch(part.size())
        .setValues(part.valueBytes());
    ByteString none = ByteString.EMPTY;
    return request.setPackedRowIds(packed ? part.packed() : none).setSampleOffsets(packed ? none : part.offsetBytes())
        .setRowIds(packed ? none : part.idBytes());
  }
}

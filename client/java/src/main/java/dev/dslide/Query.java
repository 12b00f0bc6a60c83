package dev.dslide;

import dev.dslide.v1.HiddenVector;
import dev.dslide.v1.PredictQuery;
import dev.dslide.v1.SparseFeatures;
import java.util.List;

/** What {@code dslide serve} is asked. */
public final class Query {
  private Query() {}

  /** By words, for models whose features have names. */
  public static PredictQuery text(String text) {
    return PredictQuery.newBuilder().setText(text).build();
  }

  /** By features, as the training data has them; values null: all 1. */
  public static PredictQuery features(int[] ids, float[] values) {
    var features = SparseFeatures.newBuilder();
    for (int id : ids) {
      features.addIds(id);
    }
    return PredictQuery.newBuilder().setFeatures(withValues(features, values)).build();
  }

  /** By the names of features; values null: all 1. */
  public static PredictQuery named(List<String> names, float[] values) {
    return PredictQuery.newBuilder().setFeatures(withValues(SparseFeatures.newBuilder().addAllNames(names), values))
        .build();
  }

  /** By the input of the head, for models that have a head and no memory. */
  public static PredictQuery hidden(float[] values) {
    var hidden = HiddenVector.newBuilder();
    for (float value : values) {
      hidden.addValues(value);
    }
    return PredictQuery.newBuilder().setHidden(hidden).build();
  }

  private static SparseFeatures.Builder withValues(SparseFeatures.Builder features, float[] values) {
    if (values != null) {
      for (float value : values) {
        features.addValues(value);
      }
    }
    return features;
  }
}

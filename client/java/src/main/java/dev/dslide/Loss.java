package dev.dslide;

/**
 * The loss of a batch over all shards.
 *
 * @param sum of the samples' losses
 * @param logPartitions [B]; empty for the sigmoid
 */
record Loss(double sum, float[] logPartitions) {
  /**
   * What a shard answers to a HeadForward, as numbers.
   *
   * @param maxLogits [B]
   * @param expSums [B]
   * @param labelLogits of its part of the labels, in their order
   * @param labels that part
   */
  record Part(float[] maxLogits, float[] expSums, float[] labelLogits, Sparse labels) {}

  /**
   * Combines the shards' parts of the softmax, or of the sigmoid's sum, in f64.
   *
   * @param targets [B], that of each label of a sample
   */
  static Loss combine(boolean softmax, Part[] parts, float[] targets) {
    double sum = 0;
    float[] partitions = new float[softmax ? targets.length : 0];
    for (int sample = 0; sample < targets.length; sample++) {
      double partition = softmax ? logPartition(parts, sample) : sum(parts, sample);
      double ofLabels = 0;
      int labels = 0;
      for (Part part : parts) {
        int end = part.labels.offset(sample + 1);
        for (int i = part.labels.offset(sample); i < end; i++) {
          ofLabels += part.labelLogits[i];
        }
        labels += end - part.labels.offset(sample);
      }
      if (softmax) {
        partitions[sample] = (float) partition;
      }
      double weight = softmax ? (double) targets[sample] * labels : 1;
      sum += weight * partition - targets[sample] * ofLabels;
    }
    return new Loss(sum, partitions);
  }

  private static double logPartition(Part[] parts, int sample) {
    double highest = Double.NEGATIVE_INFINITY;
    for (Part part : parts) {
      highest = Math.max(highest, part.maxLogits[sample]);
    }
    double sum = 0;
    for (Part part : parts) {
      if (part.expSums[sample] != 0) { // a shard without rows for a sample answers (-inf, 0)
        sum += part.expSums[sample] * Math.exp(part.maxLogits[sample] - highest);
      }
    }
    return highest + Math.log(sum);
  }

  private static double sum(Part[] parts, int sample) {
    double sum = 0;
    for (Part part : parts) {
      sum += part.expSums[sample];
    }
    return sum;
  }

  /** The target of each of a sample's labels. */
  static float[] targets(Sparse labels, boolean softmax) {
    float[] targets = new float[labels.size()];
    for (int i = 0; i < targets.length; i++) {
      int count = labels.offset(i + 1) - labels.offset(i);
      targets[i] = count == 0 ? 0 : softmax ? 1f / count : 1;
    }
    return targets;
  }
}

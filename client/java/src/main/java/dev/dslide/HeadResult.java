package dev.dslide;

import java.util.List;

/**
 * What the head says of a batch.
 *
 * @param lossSum the sum of the samples' losses
 * @param activePairs pairs of a row and a sample that were computed
 * @param batch samples
 * @param logPartitions [batch], for {@link Steps#headBackward}; empty for the sigmoid
 * @param probes one for each sample of which the recall was asked
 */
public record HeadResult(double lossSum, long activePairs, int batch, float[] logPartitions,
    List<RecallProbe> probes) {}

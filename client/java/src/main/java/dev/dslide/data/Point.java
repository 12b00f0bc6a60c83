package dev.dslide.data;

/**
 * A labelled point. Ids ascend strictly. The arrays are the point's own: do not change them.
 *
 * @param features ids
 * @param values one for each feature
 * @param labels ids; may be empty
 */
public record Point(int[] features, float[] values, int[] labels) {}

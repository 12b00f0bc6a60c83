package dev.dslide;

/**
 * How rows are read.
 *
 * @param into arrays of an earlier gather of as many rows, which are filled and returned, so that no
 *     memory has to be made ready; null: new ones
 * @param averaged as predictions read them, where the table keeps averages (optimizer.average_decay)
 */
public record GatherOptions(Rows into, boolean averaged) {
  /** Into new arrays, as rows are trained. */
  public static final GatherOptions DEFAULT = new GatherOptions(null, false);

  /** Into arrays that are there. */
  public static GatherOptions into(Rows rows) {
    return new GatherOptions(rows, false);
  }
}

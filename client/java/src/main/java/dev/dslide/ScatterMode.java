package dev.dslide;

/** What becomes of the values of a scatter. */
public enum ScatterMode {
  /** Runs the table's optimizer once. */
  GRADIENT(dev.dslide.v1.ScatterMode.SCATTER_MODE_GRADIENT),
  /** Adds. */
  ADD(dev.dslide.v1.ScatterMode.SCATTER_MODE_ADD),
  /** Replaces, and sets the optimizer's state to 0. */
  ASSIGN(dev.dslide.v1.ScatterMode.SCATTER_MODE_ASSIGN);

  private final dev.dslide.v1.ScatterMode word;

  ScatterMode(dev.dslide.v1.ScatterMode word) {
    this.word = word;
  }

  dev.dslide.v1.ScatterMode word() {
    return word;
  }
}

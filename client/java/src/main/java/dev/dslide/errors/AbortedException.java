package dev.dslide.errors;

/** Something else of the same kind runs: ask again. */
public final class AbortedException extends DslideException {
  AbortedException(Failure failure) {
    super(failure);
  }
}

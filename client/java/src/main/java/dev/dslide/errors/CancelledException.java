package dev.dslide.errors;

/** The caller has ended it: its context was cancelled, or its thread interrupted. */
public final class CancelledException extends DslideException {
  CancelledException(Failure failure) {
    super(failure);
  }
}

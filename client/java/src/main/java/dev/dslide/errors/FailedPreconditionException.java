package dev.dslide.errors;

/** What it needs is not so: a stale map, another model of that name, no data directory. */
public final class FailedPreconditionException extends DslideException {
  FailedPreconditionException(Failure failure) {
    super(failure);
  }
}

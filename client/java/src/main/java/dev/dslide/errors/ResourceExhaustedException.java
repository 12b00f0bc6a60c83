package dev.dslide.errors;

/** A server is busy or full: wait as long as it says. */
public final class ResourceExhaustedException extends DslideException {
  ResourceExhaustedException(Failure failure) {
    super(failure);
  }
}

package dev.dslide.errors;

/** The server, or this client, cannot do it. */
public final class UnimplementedException extends DslideException {
  UnimplementedException(Failure failure) {
    super(failure);
  }
}

package dev.dslide.errors;

/** A server or this client has done something wrong. */
public final class InternalException extends DslideException {
  InternalException(Failure failure) {
    super(failure);
  }
}

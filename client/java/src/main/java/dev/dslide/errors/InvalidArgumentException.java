package dev.dslide.errors;

/** The request is wrong, and stays wrong: fix the program. */
public final class InvalidArgumentException extends DslideException {
  InvalidArgumentException(Failure failure) {
    super(failure);
  }
}

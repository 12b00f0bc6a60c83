package dev.dslide.errors;

/** There is no certificate that the server knows. */
public final class UnauthenticatedException extends DslideException {
  UnauthenticatedException(Failure failure) {
    super(failure);
  }
}

package dev.dslide.errors;

/** Nobody answers. */
public final class UnavailableException extends DslideException {
  UnavailableException(Failure failure) {
    super(failure);
  }
}

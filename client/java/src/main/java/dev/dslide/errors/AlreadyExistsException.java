package dev.dslide.errors;

/** Another one has the name or the number. */
public final class AlreadyExistsException extends DslideException {
  AlreadyExistsException(Failure failure) {
    super(failure);
  }
}

package dev.dslide.errors;

/** There is none of that name. */
public final class NotFoundException extends DslideException {
  NotFoundException(Failure failure) {
    super(failure);
  }
}

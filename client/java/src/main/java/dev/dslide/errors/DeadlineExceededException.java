package dev.dslide.errors;

/** No answer came in time. */
public final class DeadlineExceededException extends DslideException {
  DeadlineExceededException(Failure failure) {
    super(failure);
  }
}

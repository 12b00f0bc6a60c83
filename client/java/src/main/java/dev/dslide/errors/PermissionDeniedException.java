package dev.dslide.errors;

/** The certificate's role may not do this. */
public final class PermissionDeniedException extends DslideException {
  PermissionDeniedException(Failure failure) {
    super(failure);
  }
}

package dev.dslide.data;

/** A text is no sparse points. */
public final class MalformedPointException extends Exception {
  MalformedPointException(int line, String what) {
    super(line + ": " + what);
  }
}

package dev.dslide.errors;

/** A checkpoint is damaged, or a shard came back without updates that it had confirmed. */
public final class DataLossException extends DslideException {
  DataLossException(Failure failure) {
    super(failure);
  }
}

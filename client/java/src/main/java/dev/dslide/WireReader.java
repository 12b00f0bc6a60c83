package dev.dslide;

import io.grpc.HasByteBuffer;
import io.grpc.Status;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/**
 * Reads a protobuf message field by field, from the memory in which the transport has it: numbers are
 * copied once, to their place.
 */
final class WireReader {
  private static final int VARINT = 0;
  private static final int FIXED64 = 1;
  private static final int BYTES = 2;
  private static final int FIXED32 = 5;
  private static final int COPY_BYTES = 16 << 10;

  /** A field: the number of a varint, or the size of bytes that stand next. */
  interface Visitor {
    void field(int number, long value, boolean bytes) throws IOException;
  }

  private final InputStream stream;
  private final HasByteBuffer memory; // null: the stream has none to show
  private final long size; // of the message
  private ByteBuffer current = ByteBuffer.allocate(0).order(ByteOrder.LITTLE_ENDIAN);
  private int shown; // bytes of the stream's own that are in current
  private long before; // bytes of the message before current
  private FloatBuffer numbers; // of current, from numbersAt on
  private int numbersAt;

  WireReader(InputStream stream) throws IOException {
    this.stream = stream;
    size = stream.available(); // all of it, for those of gRPC
    memory = stream instanceof HasByteBuffer shows && shows.byteBufferSupported() ? shows : null;
  }

  static Status malformed(String what) {
    return Status.INTERNAL.withDescription("malformed message: " + what);
  }

  /** How many bytes were read. */
  long at() {
    return before + current.position();
  }

  /** False at the end of the message. */
  private boolean fill() throws IOException {
    while (!current.hasRemaining()) {
      before += current.limit();
      numbers = null;
      if (memory == null) {
        byte[] copy = new byte[COPY_BYTES];
        int read = stream.read(copy);
        if (read < 0) {
          current = current.limit(0);
          return false;
        }
        current = ByteBuffer.wrap(copy, 0, read).order(ByteOrder.LITTLE_ENDIAN);
        continue;
      }
      stream.skipNBytes(shown);
      ByteBuffer next = memory.getByteBuffer();
      if (next == null) {
        shown = 0;
        current = ByteBuffer.allocate(0).order(ByteOrder.LITTLE_ENDIAN);
        return false;
      }
      current = next.slice().order(ByteOrder.LITTLE_ENDIAN);
      shown = current.limit();
    }
    return true;
  }

  private int read() throws IOException {
    if (!fill()) {
      throw new EOFException();
    }
    return current.get() & 0xff;
  }

  private long varint() throws IOException {
    long value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      int next = read();
      value |= (long) (next & 0x7f) << shift;
      if (next < 0x80) {
        return value;
      }
    }
    throw new IOException("a number that does not end");
  }

  /** Visits all fields of the message. */
  void eachField(Visitor visitor) throws IOException {
    eachField(size, visitor);
  }

  /** Visits the fields of the next so many bytes. */
  void eachField(long bytes, Visitor visitor) throws IOException {
    long end = at() + bytes;
    while (at() < end) {
      field(end, visitor);
    }
  }

  private void field(long end, Visitor visitor) throws IOException {
    long tag = varint();
    int number = (int) (tag >>> 3);
    switch ((int) (tag & 7)) {
      case VARINT -> visitor.field(number, varint(), false);
      case FIXED64 -> skip(8);
      case FIXED32 -> skip(4);
      case BYTES -> {
        long length = varint();
        long start = at();
        if (length < 0 || length > end - start) {
          throw new EOFException();
        }
        visitor.field(number, length, true);
        skip(start + length - at());
      }
      default -> throw new IOException("wire type " + (tag & 7));
    }
    if (at() > end) {
      throw new EOFException();
    }
  }

  private void skip(long count) throws IOException {
    while (count > 0) {
      if (!fill()) {
        throw new EOFException();
      }
      int some = (int) Math.min(count, current.remaining());
      current.position(current.position() + some);
      count -= some;
    }
  }

  byte[] bytes(int count) throws IOException {
    byte[] into = new byte[count];
    for (int done = 0; done < count;) {
      if (!fill()) {
        throw new EOFException();
      }
      int some = Math.min(count - done, current.remaining());
      current.get(into, done, some);
      done += some;
    }
    return into;
  }

  private int word() throws IOException {
    if (current.remaining() >= 4) {
      return current.getInt();
    }
    return read() | read() << 8 | read() << 16 | read() << 24;
  }

  /** Whether the next numbers are these. */
  boolean equalIds(int[] ids, int first, int count) throws IOException {
    boolean equal = true;
    for (int i = first; i < first + count; i++) {
      equal &= word() == ids[i];
    }
    return equal;
  }

  /** Reads numbers into a part of an array. */
  void floats(float[] into, int first, int count) throws IOException {
    while (count > 0) {
      if (!fill()) {
        throw new EOFException();
      }
      int some = Math.min(count, current.remaining() / 4);
      if (some == 0) { // one that is cut
        into[first] = Float.intBitsToFloat(word());
        some = 1;
      } else {
        int at = current.position();
        if (numbers == null || (at - numbersAt) % 4 != 0) {
          numbers = current.asFloatBuffer();
          numbersAt = at;
        }
        numbers.get((at - numbersAt) / 4, into, first, some);
        current.position(at + 4 * some);
      }
      first += some;
      count -= some;
    }
  }
}

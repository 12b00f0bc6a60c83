package dev.dslide;

import dev.dslide.v1.ElementType;
import dev.dslide.v1.ScatterRequest;
import io.grpc.Drainable;
import io.grpc.KnownLength;
import io.grpc.MethodDescriptor;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/**
 * A ScatterRequest around rows of a caller: they are written into the transport's memory from where they
 * stand. What is on the wire is ordinary protobuf. An {@link Exchange} writes each message out before
 * sending returns, so the caller's arrays are not looked at afterwards.
 */
final class ScatterMessage extends InputStream implements Drainable, KnownLength {
  private static final int BLOCK_FLOATS = 8 << 10;
  private static final int VARINT = 0;
  private static final int BYTES = 2;

  /** Writes messages. */
  static final MethodDescriptor.Marshaller<ScatterMessage> MARSHALLER = new MethodDescriptor.Marshaller<>() {
    @Override
    public InputStream stream(ScatterMessage message) {
      return message;
    }

    @Override
    public ScatterMessage parse(InputStream stream) {
      throw new UnsupportedOperationException("it only sends");
    }
  };

  private final RowChange change;
  private final Part part;
  private final int first;
  private final int end;
  private final byte[] before; // the values
  private final byte[] after;
  private boolean drained;

  /** Rows first .. end - 1 of a part; others: the other fields of the message. */
  ScatterMessage(ScatterRequest others, RowChange change, Part part, int first, int end) {
    this.change = change;
    this.part = part;
    this.first = first;
    this.end = end;
    after = biases();
    before = head(others.toByteArray());
  }

  private int dim() {
    return (int) change.table().getDim();
  }

  private int valueBytes() {
    return 4 * (end - first) * dim();
  }

  private byte[] biases() {
    var field = new ByteArrayOutputStream();
    if (change.biases() != null) {
      float[] some = new float[end - first];
      for (int i = 0; i < some.length; i++) {
        some[i] = change.biases()[part.place(first + i)];
      }
      appendHead(field, 3, 4 * some.length);
      field.writeBytes(Numbers.floats(some).toByteArray());
    }
    return field.toByteArray();
  }

  private byte[] head(byte[] others) {
    var matrix = new ByteArrayOutputStream();
    appendVarint(matrix, 1, end - first);
    appendVarint(matrix, 2, dim());
    appendVarint(matrix, 3, ElementType.ELEMENT_TYPE_F32_VALUE);
    appendHead(matrix, 4, valueBytes());
    var block = new ByteArrayOutputStream();
    ByteBuffer ids = ByteBuffer.allocate(4 * (end - first)).order(ByteOrder.LITTLE_ENDIAN);
    ids.asIntBuffer().put(part.ids(), first, end - first);
    appendHead(block, 1, ids.capacity());
    block.writeBytes(ids.array());
    appendHead(block, 2, matrix.size() + valueBytes());
    block.writeBytes(matrix.toByteArray());
    var message = new ByteArrayOutputStream();
    message.writeBytes(others);
    appendHead(message, 4, block.size() + valueBytes() + after.length);
    message.writeBytes(block.toByteArray());
    return message.toByteArray();
  }

  private static void appendVarint(ByteArrayOutputStream into, int number, long value) {
    Numbers.appendVarint(into, number << 3 | VARINT);
    Numbers.appendVarint(into, value);
  }

  /** What stands before a field of so many bytes. */
  private static void appendHead(ByteArrayOutputStream into, int number, int size) {
    Numbers.appendVarint(into, number << 3 | BYTES);
    Numbers.appendVarint(into, size);
  }

  @Override
  public int available() {
    return drained ? 0 : before.length + valueBytes() + after.length;
  }

  @Override
  public int drainTo(OutputStream target) throws IOException {
    int size = available();
    drained = true;
    target.write(before);
    var out = new FloatWriter(target);
    if (part.places() == null) {
      out.write(change.values(), (part.first() + first) * dim(), (end - first) * dim());
    } else {
      for (int i = first; i < end; i++) {
        out.write(change.values(), part.places()[i] * dim(), dim());
      }
    }
    out.flush();
    target.write(after);
    return size;
  }

  @Override
  public int read() {
    throw new UnsupportedOperationException("it is drained"); // gRPC asks what can be
  }

  /** Writes floats as bytes, many at a time. */
  private static final class FloatWriter {
    private final OutputStream target;
    private final byte[] block = new byte[4 * BLOCK_FLOATS];
    private final FloatBuffer floats = ByteBuffer.wrap(block).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer();

    FloatWriter(OutputStream target) {
      this.target = target;
    }

    void write(float[] numbers, int from, int count) throws IOException {
      while (count > 0) {
        int some = Math.min(count, floats.remaining());
        floats.put(numbers, from, some);
        from += some;
        count -= some;
        if (!floats.hasRemaining()) {
          flush();
        }
      }
    }

    void flush() throws IOException {
      target.write(block, 0, 4 * floats.position());
      floats.clear();
    }
  }
}

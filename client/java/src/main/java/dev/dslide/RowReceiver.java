package dev.dslide;

import dev.dslide.v1.ElementType;
import io.grpc.MethodDescriptor;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;

/**
 * Takes the rows of one gather from one shard: each message puts its rows at their places as it is read.
 * What is on the wire is ordinary protobuf; fields may come in any order, and of one that occurs twice
 * the last counts.
 */
final class RowReceiver implements MethodDescriptor.Marshaller<Integer> {
  private static final int MAX_ROWS = 1 << 20;

  private final Part part;
  private final int dim;
  private final Rows rows;
  private int done;

  RowReceiver(Part part, int dim, Rows rows) {
    this.part = part;
    this.dim = dim;
    this.rows = rows;
  }

  /** How many rows are at their places. */
  int done() {
    return done;
  }

  @Override
  public InputStream stream(Integer value) {
    throw new UnsupportedOperationException("it only receives");
  }

  /** Returns how many rows the message had. */
  @Override
  public Integer parse(InputStream stream) {
    try (stream) {
      int count = new Message(new WireReader(stream)).take();
      done += count;
      return count;
    } catch (IOException e) {
      throw WireReader.malformed(e.getMessage() == null ? "it ends early" : e.getMessage()).withCause(e)
          .asRuntimeException();
    }
  }

  /** One GatherResponse. */
  private final class Message {
    private final WireReader reader;
    private int count = -1; // rows, by their ids
    private long matrixRows;
    private long matrixCols;
    private int element = ElementType.ELEMENT_TYPE_F32_VALUE;
    private long valueBytes;
    private long biasBytes;
    // Numbers that came before it was known whose they are.
    private byte[] earlyValues;
    private byte[] earlyBiases;

    Message(WireReader reader) {
      this.reader = reader;
    }

    int take() throws IOException {
      reader.eachField((number, size, bytes) -> {
        if (number == 1 && bytes) {
          reader.eachField(size, this::blockField);
        }
      });
      int n = Math.max(count, 0);
      boolean shaped = matrixRows == n
          && (n == 0 || matrixCols == dim && element == ElementType.ELEMENT_TYPE_F32_VALUE);
      if (!shaped || valueBytes != 4L * n * dim || rows.biases() != null && biasBytes != 4L * n) {
        throw new IOException("its sizes differ");
      }
      if (earlyValues != null) {
        place(new WireReader(new ByteArrayInputStream(earlyValues)), rows.values(), dim);
      }
      if (earlyBiases != null && rows.biases() != null) {
        place(new WireReader(new ByteArrayInputStream(earlyBiases)), rows.biases(), 1);
      }
      return n;
    }

    private void blockField(int number, long size, boolean bytes) throws IOException {
      if (number == 1 && bytes) {
        if (size % 4 != 0 || size / 4 > Math.min(MAX_ROWS, part.size() - done)
            || !reader.equalIds(part.ids(), done, (int) (size / 4))) {
          throw new IOException("they are rows that were not asked for");
        }
        count = (int) (size / 4);
      } else if (number == 2 && bytes) {
        reader.eachField(size, this::matrixField);
      } else if (number == 3 && bytes) {
        biasBytes = size;
        if (count >= 0 && rows.biases() != null && size == 4L * count) {
          place(reader, rows.biases(), 1);
          earlyBiases = null;
        } else {
          earlyBiases = reader.bytes((int) size);
        }
      }
    }

    private void matrixField(int number, long value, boolean bytes) throws IOException {
      if (number == 4 && bytes) {
        valueBytes = value;
        if (count >= 0 && value == 4L * count * dim) {
          place(reader, rows.values(), dim);
          earlyValues = null;
        } else {
          earlyValues = reader.bytes((int) value);
        }
      } else if (!bytes) {
        matrixRows = number == 1 ? value : matrixRows;
        matrixCols = number == 2 ? value : matrixCols;
        element = number == 3 ? (int) value : element;
      }
    }

    /** Puts runs of numbers, each of a row, into an array of all rows. */
    private void place(WireReader from, float[] into, int width) throws IOException {
      if (part.places() == null) {
        from.floats(into, (part.first() + done) * width, count * width);
        return;
      }
      for (int i = done; i < done + count; i++) {
        from.floats(into, part.places()[i] * width, width);
      }
    }
  }
}

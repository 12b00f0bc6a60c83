package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.ByteString;
import com.google.protobuf.UnknownFieldSet;
import dev.dslide.v1.ElementType;
import dev.dslide.v1.GatherResponse;
import dev.dslide.v1.Matrix;
import dev.dslide.v1.RowBlock;
import dev.dslide.v1.ScatterRequest;
import dev.dslide.v1.TableSpec;
import io.grpc.HasByteBuffer;
import io.grpc.StatusRuntimeException;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.SequenceInputStream;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

/** Bulk messages are those that generated code reads and writes. */
class WireTest {
  private static final int[] IDS = {3, 8, 300};
  private static final float[] VALUES = {1, 2, 3, 4, 5, 6};
  private static final float[] BIASES = {1, 2, 3};
  private static final Matrix MATRIX = Matrix.newBuilder().setRows(3).setCols(2)
      .setElementType(ElementType.ELEMENT_TYPE_F32).setData(Numbers.floats(VALUES)).build();

  /** A message in pieces of memory, as the transport has it. */
  private static final class Pieces extends InputStream implements HasByteBuffer {
    private final byte[] bytes;
    private final int size;
    private int at;

    Pieces(byte[] bytes, int size) {
      this.bytes = bytes;
      this.size = size;
    }

    @Override
    public boolean byteBufferSupported() {
      return true;
    }

    @Override
    public ByteBuffer getByteBuffer() {
      if (at == bytes.length) {
        return null;
      }
      return ByteBuffer.wrap(bytes, at, Math.min(size - at % size, bytes.length - at)).asReadOnlyBuffer();
    }

    @Override
    public int available() {
      return bytes.length - at;
    }

    @Override
    public int read() {
      return at == bytes.length ? -1 : bytes[at++] & 0xff;
    }
  }

  private static ByteString response(boolean backwards) {
    var block = RowBlock.newBuilder().setRowIds(Numbers.ids(IDS)).setValues(MATRIX).setBiases(Numbers.floats(BIASES));
    if (!backwards) {
      return GatherResponse.newBuilder().setRows(block).setTotalRows(3).build().toByteString();
    }
    // The same fields from the last to the first, some twice, with others that nobody knows.
    var first = RowBlock.newBuilder().setBiases(Numbers.floats(new float[] {9, 9, 9}));
    var values = MATRIX.toBuilder().clearData().setUnknownFields(UnknownFieldSet.newBuilder()
        .addField(9, UnknownFieldSet.Field.newBuilder().addFixed32(1).addFixed64(2).build()).build());
    ByteString data = Matrix.newBuilder().setData(MATRIX.getData()).build().toByteString()
        .concat(values.build().toByteString());
    var unknown = UnknownFieldSet.newBuilder()
        .addField(2, UnknownFieldSet.Field.newBuilder().addLengthDelimited(data).build()).build();
    ByteString inner = first.setUnknownFields(unknown).build().toByteString()
        .concat(RowBlock.newBuilder().setBiases(Numbers.floats(BIASES)).build().toByteString())
        .concat(RowBlock.newBuilder().setRowIds(Numbers.ids(IDS)).build().toByteString());
    var rows = UnknownFieldSet.newBuilder()
        .addField(1, UnknownFieldSet.Field.newBuilder().addLengthDelimited(inner).build()).build();
    return GatherResponse.newBuilder().setTotalRows(3).setUnknownFields(rows).build().toByteString();
  }

  @Test
  void receivesRowsHoweverTheyAreCut() {
    for (boolean backwards : new boolean[] {false, true}) {
      byte[] message = response(backwards).toByteArray();
      for (int size = 1; size <= message.length; size++) {
        check(new Pieces(message, size));
        check(new SequenceInputStream(new ByteArrayInputStream(message, 0, size),
            new ByteArrayInputStream(message, size, message.length - size)) {
          @Override
          public int available() {
            return message.length;
          }
        });
      }
    }
  }

  private static void check(InputStream stream) {
    Rows rows = new Rows(new float[8], new float[4]);
    var receiver = new RowReceiver(new Part(IDS, new int[] {1, 0, 3}, 0), 2, rows);
    assertEquals(3, receiver.parse(stream));
    assertEquals(3, receiver.done());
    assertArrayEquals(new float[] {3, 4, 1, 2, 0, 0, 5, 6}, rows.values());
    assertArrayEquals(new float[] {2, 1, 0, 3}, rows.biases());
  }

  @Test
  void refusesWhatWasNotAskedFor() {
    byte[] message = response(false).toByteArray();
    refuses(message, 3, 9, 300);
    refuses(message, 3, 8);
    for (int size = 1; size < message.length - 2; size++) { // the last field says nothing that is used
      refuses(Arrays.copyOf(message, size), IDS);
    }
  }

  private static void refuses(byte[] message, int... asked) {
    var receiver = new RowReceiver(new Part(asked, null, 0), 2, new Rows(new float[6], new float[3]));
    assertThrows(StatusRuntimeException.class, () -> receiver.parse(new ByteArrayInputStream(message)),
        message.length + " bytes");
    assertEquals(0, receiver.done());
  }

  @Test
  void sendsRows() throws IOException {
    var table = TableSpec.newBuilder().setName("labels").setRole("head").setDim(2).setRows(1000).build();
    var change = RowChange.of(table, ScatterMode.ADD, IDS, VALUES, ScatterOptions.biases(BIASES));
    var others = ScatterRequest.newBuilder().setTable("labels").setTotalRows(3).build();
    var all = new Part(IDS, null, 0);
    var some = new Part(new int[] {3, 300}, new int[] {0, 2}, 0);
    ScatterRequest sent = sent(new ScatterMessage(others, change, all, 1, 3));
    assertEquals(others.toBuilder().setRows(RowBlock.newBuilder().setRowIds(Numbers.ids(new int[] {8, 300}))
        .setValues(MATRIX.toBuilder().setRows(2).setData(Numbers.floats(new float[] {3, 4, 5, 6})))
        .setBiases(Numbers.floats(new float[] {2, 3}))).build(), sent);
    sent = sent(new ScatterMessage(others, change, some, 0, 2));
    assertEquals(Numbers.floats(new float[] {1, 2, 5, 6}), sent.getRows().getValues().getData());
    assertEquals(Numbers.floats(new float[] {1, 3}), sent.getRows().getBiases());
  }

  private static ScatterRequest sent(ScatterMessage message) throws IOException {
    var out = new ByteArrayOutputStream();
    int announced = ScatterMessage.MARSHALLER.stream(message).available();
    assertEquals(announced, message.drainTo(out));
    assertEquals(announced, out.size());
    return ScatterRequest.parseFrom(out.toByteArray());
  }
}

package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.dslide.errors.InvalidArgumentException;
import dev.dslide.v1.TableSpec;
import org.junit.jupiter.api.Test;

class SparseTest {
  private static final TableSpec TABLE = TableSpec.newBuilder().setName("input").setRows(10).build();

  /** The bias row is a feature of every sample; those from its number on have the row after their own. */
  @Test
  void sliceWithTheBiasRow() {
    short[] owners = {0, 1};
    Sparse[] parts = new Sparse().add(new int[] {1, 4, 5, 6}, new float[] {1, 4, 5, 6}).add().slice(owners, 2, 5);
    assertEquals(Numbers.ids(new int[] {4, 6}), parts[0].idBytes());
    assertEquals(Numbers.floats(new float[] {4, 5}), parts[0].valueBytes());
    assertEquals(Numbers.ids(new int[] {1, 5, 7, 5}), parts[1].idBytes());
    assertEquals(Numbers.floats(new float[] {1, 1, 6, 1}), parts[1].valueBytes());
    assertEquals(Numbers.ids(new int[] {0, 3, 4}), parts[1].offsetBytes());
  }

  @Test
  void scale() {
    Sparse features = new Sparse().add(new int[] {1, 2}, new float[] {3, 4})
        .add(new int[] {1}, new float[] {0}).scale();
    assertEquals(Numbers.floats(new float[] {0.6f, 0.8f, 0}), features.valueBytes());
  }

  private static void refuses(String said, Sparse samples) {
    var e = assertThrows(InvalidArgumentException.class, () -> samples.check(TABLE, 10, "features"));
    assertTrue(e.getMessage().contains(said), e.getMessage());
  }

  @Test
  void checks() {
    refuses("0 samples, must be 1 to 65,536", new Sparse());
    refuses("the ids of sample 1 do not ascend strictly", new Sparse().add(1).add(3, 3));
    refuses("id 10 at place 1 is outside [0, 10)", new Sparse().add(1).add(10));
    refuses("number 0 is Infinity", new Sparse().add(new int[] {1}, new float[] {Float.POSITIVE_INFINITY}));
    assertThrows(InvalidArgumentException.class, () -> new Sparse().add(new int[] {1}, new float[2]));
  }
}

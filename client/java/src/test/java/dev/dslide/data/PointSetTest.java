package dev.dslide.data;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.api.Test;

class PointSetTest {
  private static PointSet parse(String text) throws MalformedPointException {
    return PointSet.parse(text.getBytes(StandardCharsets.UTF_8));
  }

  @Test
  void reads() throws MalformedPointException {
    PointSet set = parse("3 5 9\r\n7,2 4:1.5 0:-2\r\n 1:3e-1\r\n8\r\n");
    assertEquals(3, set.points().size());
    assertEquals(5, set.numFeatures());
    assertEquals(9, set.numLabels());
    assertArrayEquals(new int[] {0, 4}, set.points().get(0).features());
    assertArrayEquals(new float[] {-2, 1.5f}, set.points().get(0).values());
    assertArrayEquals(new int[] {2, 7}, set.points().get(0).labels());
    assertArrayEquals(new float[] {0.3f}, set.points().get(1).values());
    assertEquals(0, set.points().get(1).labels().length);
    assertEquals(0, set.points().get(2).features().length);
  }

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
      "''|1: found \"\", expected: points features labels",
      "1 2|1: found \"1 2\", expected: points",
      "2 5 9;1 1:1|2: found 1 points, expected 2",
      "1 5 9;9 1:1|2: found \"9\", expected a label id in [0, 9)",
      "1 5 9;1 5:1|2: found \"5\", expected feature:value with a feature id in [0, 5)",
      "1 5 9;1 2|2: found \"\", expected a finite decimal number",
      "1 5 9;1 2:nan|2: found \"nan\", expected a finite",
      "1 5 9;1 2:1f|2: found \"1f\", expected a finite",
      "1 5 9;1 2:1e99|2: found \"1e99\", expected a finite",
      "1 5 9;1 2:1 2:1|2: the point has id 2 twice",
      "2 5 9;1 2:1;;|2: found 1 points, expected 2",
      "2 5 9;;1 2:1|2: found nothing, expected a point"})
  void refuses(String text, String said) {
    var e = assertThrows(MalformedPointException.class, () -> parse(text.replace(';', '\n')));
    assertTrue(e.getMessage().startsWith(said), e.getMessage());
  }
}

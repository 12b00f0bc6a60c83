package dev.dslide.data;

import dev.dslide.hashing.KeyedRandom;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;
import java.util.zip.GZIPInputStream;

/**
 * Points in memory. All trainers of a job must agree on the fingerprint; that of a file is the C++
 * programs'.
 *
 * @param points in the order of the file
 * @param numFeatures ids of features are below it
 * @param numLabels ids of labels are below it
 * @param fingerprint any number that tells sets apart
 */
public record PointSet(List<Point> points, long numFeatures, long numLabels, long fingerprint) {
  private static final int END = 64 << 10;
  private static final int BLOCK = 4 << 10;
  private static final int BLOCKS = 64;

  /**
   * Reads a file of the sparse text format ({@code docs/start/data.md}), plain or .gz.
   *
   * @throws IOException it cannot be read, or is malformed: the line is named
   */
  public static PointSet read(Path path) throws IOException {
    byte[] text = Files.readAllBytes(path);
    if (text.length > 2 && text[0] == 0x1f && (text[1] & 0xff) == 0x8b) {
      try (var unpacked = new GZIPInputStream(new ByteArrayInputStream(text))) {
        text = unpacked.readAllBytes();
      }
    }
    try {
      return parse(text);
    } catch (MalformedPointException e) {
      throw new IOException(path + ":" + e.getMessage(), e);
    }
  }

  /**
   * Reads the content of such a file.
   *
   * @throws MalformedPointException its message begins with the number of the line
   */
  public static PointSet parse(byte[] content) throws MalformedPointException {
    int size = content.length;
    while (size > 0 && (content[size - 1] == '\n' || content[size - 1] == '\r')) {
      size--;
    }
    String[] lines = new String(content, 0, size, StandardCharsets.UTF_8).split("\n", -1);
    long[] sizes = SparseLine.header(lines[0]);
    if (lines.length - 1 != sizes[0]) {
      throw new MalformedPointException(lines.length, "found %d points, expected %d as the header says"
          .formatted(lines.length - 1, sizes[0]));
    }
    var points = new ArrayList<Point>(lines.length - 1);
    for (int i = 1; i < lines.length; i++) {
      points.add(new SparseLine(i + 1, lines[i], sizes[1], sizes[2]).point());
    }
    long key = KeyedRandom.derive(KeyedRandom.derive(sizes[0], sizes[1]), sizes[2]);
    return new PointSet(List.copyOf(points), sizes[1], sizes[2], hashSample(key, content, size));
  }

  /** Mixes the size of the text and a sample of it, at most 400 KB, into the key. */
  private static long hashSample(long key, byte[] text, int size) {
    long value = mixPiece(KeyedRandom.bits(key, size), text, 0, Math.min(END, size));
    if (size > END) {
      value = mixPiece(value, text, size - END, size);
      for (long at = 0; at < size; at += Math.max(BLOCK, size / BLOCKS)) {
        value = mixPiece(value, text, (int) at, (int) Math.min(at + BLOCK, size));
      }
    }
    return value;
  }

  private static long mixPiece(long value, byte[] text, int first, int end) {
    var sum = new CRC32C();
    sum.update(text, first, end - first);
    return KeyedRandom.bits(KeyedRandom.bits(value, end - first), sum.getValue());
  }
}

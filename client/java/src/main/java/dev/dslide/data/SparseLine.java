package dev.dslide.data;

import java.util.Arrays;
import java.util.Comparator;

/** One line: "label,label feature:value feature:value". That of a point without labels begins with a blank. */
final class SparseLine {
  private static final long MAX_ID = 1L << 31;
  private static final int SHOWN = 40;

  private record Pair(int id, float value) {}

  private final int number;
  private final String line;
  private final long numFeatures;
  private final long numLabels;

  SparseLine(int number, String line, long numFeatures, long numLabels) {
    this.number = number;
    this.line = line.endsWith("\r") ? line.substring(0, line.length() - 1) : line;
    this.numFeatures = numFeatures;
    this.numLabels = numLabels;
  }

  /** Points, features and labels. */
  static long[] header(String line) throws MalformedPointException {
    String[] words = words(line);
    long[] sizes = new long[3];
    boolean fits = words.length == 3;
    for (int i = 0; fits && i < 3; i++) {
      sizes[i] = number(words[i], MAX_ID + 1);
      fits = sizes[i] >= 1;
    }
    if (!fits) {
      throw new MalformedPointException(1, "found \"%s\", expected: points features labels, each in [1, %d]"
          .formatted(shown(line), MAX_ID));
    }
    return sizes;
  }

  Point point() throws MalformedPointException {
    String[] words = words(line);
    if (words.length == 0) {
      throw refuse("found nothing, expected a point");
    }
    int first = 0;
    int[] labels = {};
    if (!Character.isWhitespace(line.charAt(0)) && words[0].indexOf(':') < 0) {
      String[] names = words[0].split(",", -1);
      labels = new int[names.length];
      for (int i = 0; i < names.length; i++) {
        labels[i] = id(names[i], numLabels, "a label");
      }
      Arrays.sort(labels);
      first = 1;
    }
    Pair[] pairs = new Pair[words.length - first];
    for (int i = 0; i < pairs.length; i++) {
      pairs[i] = pair(words[first + i]);
    }
    Arrays.sort(pairs, Comparator.comparingInt(Pair::id));
    int[] features = new int[pairs.length];
    float[] values = new float[pairs.length];
    for (int i = 0; i < pairs.length; i++) {
      features[i] = pairs[i].id();
      values[i] = pairs[i].value();
    }
    checkDistinct(features);
    checkDistinct(labels);
    return new Point(features, values, labels);
  }

  private Pair pair(String word) throws MalformedPointException {
    int colon = word.indexOf(':');
    String text = colon < 0 ? "" : word.substring(colon + 1);
    int feature = id(colon < 0 ? word : word.substring(0, colon), numFeatures, "feature:value with a feature");
    // What Java would read beside decimal numbers: suffixes, hexadecimal digits, infinities.
    boolean decimal = text.matches("[+-]?[0-9.][0-9.eE+-]*");
    float value = Float.NaN;
    try {
      value = decimal ? Float.parseFloat(text) : value;
    } catch (NumberFormatException e) {
      decimal = false;
    }
    if (!decimal || !Float.isFinite(value)) {
      throw refuse("found \"" + shown(text) + "\", expected a finite decimal number");
    }
    return new Pair(feature, value);
  }

  private int id(String word, long size, String what) throws MalformedPointException {
    long id = number(word, size);
    if (id < 0) {
      throw refuse("found \"%s\", expected %s id in [0, %d)".formatted(shown(word), what, size));
    }
    return (int) id;
  }

  private void checkDistinct(int[] ids) throws MalformedPointException {
    for (int i = 1; i < ids.length; i++) {
      if (ids[i] == ids[i - 1]) {
        throw refuse("the point has id " + ids[i] + " twice");
      }
    }
  }

  private MalformedPointException refuse(String what) {
    return new MalformedPointException(number, what);
  }

  private static String[] words(String line) {
    String text = line.strip();
    return text.isEmpty() ? new String[0] : text.split("\\s+");
  }

  /** The number that a word is, in [0, size); -1 where it is none. */
  private static long number(String word, long size) {
    if (word.isEmpty() || word.length() > 10 || !word.chars().allMatch(c -> c >= '0' && c <= '9')) {
      return -1;
    }
    long number = Long.parseLong(word);
    return number < size ? number : -1;
  }

  private static String shown(String text) {
    return text.length() > SHOWN ? text.substring(0, SHOWN) : text;
  }
}

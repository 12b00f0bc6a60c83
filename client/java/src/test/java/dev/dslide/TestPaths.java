package dev.dslide;

import java.nio.file.Path;

/** Where the tests find what is not in the package. */
final class TestPaths {
  private TestPaths() {}

  /** DSLIDE_JAVA_DOCS, or the docs of the checkout. */
  static Path docs() {
    String named = System.getenv("DSLIDE_JAVA_DOCS");
    return (named == null ? Path.of("../../docs") : Path.of(named)).toAbsolutePath().normalize();
  }

  /** The class path of a user's program. */
  static String classPath() {
    Path target = Path.of("target").toAbsolutePath();
    return target.resolve("dslide-" + Cluster.VERSION + ".jar") + ":" + target.resolve("lib") + "/*";
  }

  /** The program that runs this test. */
  static String java() {
    return Path.of(System.getProperty("java.home"), "bin", "java").toString();
  }
}

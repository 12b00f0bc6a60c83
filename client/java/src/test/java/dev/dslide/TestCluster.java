package dev.dslide;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A coordinator and shards, processes of this machine, which end with it. */
final class TestCluster implements AutoCloseable {
  // Within so long every server is ready, and every program ends, on a busy machine.
  private static final Duration PATIENCE = Duration.ofMinutes(5);

  private final Path folder = temporaryFolder(); // certificates, data and logs
  private final String address = freeAddress();
  private final boolean encrypted;
  private final List<Server> servers = new ArrayList<>();
  private final List<Server> shards = new ArrayList<>();
  private final List<AutoCloseable> clients = new ArrayList<>();

  /**
   * Starts them and waits until they are ready.
   *
   * @param encrypted servers and clients show certificates
   * @param kept shards keep a log of what changes; else rows live in memory only
   */
  TestCluster(int count, boolean encrypted, boolean kept) {
    this.encrypted = encrypted;
    if (encrypted) {
      run("dslide", "certs", "dev", "--output", folder);
    }
    try {
      serve("coordinator", "dslide-coordinator", "--listen", address, "--shards", count, "--data-dir",
          folder.resolve("coordinator"));
      for (int shard = 0; shard < count; shard++) {
        var flags = new ArrayList<Object>(List.of("--coordinator", address, "--listen", freeAddress(), "--shard-id",
            shard, "--threads", 1));
        if (kept) {
          flags.addAll(List.of("--durability", "log", "--data-dir", folder.resolve("shard-" + shard)));
        }
        shards.add(serve("shard", "dslide-shard", flags.toArray()));
      }
      connect("trainer");
    } catch (RuntimeException e) {
      close();
      throw e;
    }
  }

  private final class Server {
    private final Path log;
    private final List<String> command;
    private Process process;

    Server(List<String> command, Path log) {
      this.command = command;
      this.log = log;
    }

    void start() {
      try {
        process = new ProcessBuilder(command).redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
        process.getOutputStream().close();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly)); // when somebody ends the tests
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    void kill() {
      process.destroyForcibly();
      try {
        process.waitFor();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private Server serve(String role, String program, Object... arguments) {
    var all = new ArrayList<Object>(Arrays.asList(arguments));
    all.addAll(List.of("--admin", ""));
    all.addAll(tlsFlags(role, "--tls-"));
    var server = new Server(command(program, all), folder.resolve("server-" + servers.size() + ".log"));
    servers.add(server);
    server.start();
    return server;
  }

  String address() {
    return address;
  }

  Path folder() {
    return folder;
  }

  /** Serves a model of a plaintext cluster, and returns the address once it is ready. */
  String serveModel(String model) {
    String there = freeAddress();
    serve("reader", "dslide", "serve", "--cluster", address, "--name", model, "--http", "", "--listen", there);
    try (var predictor = Predictor.connect(there, options("reader"))) {
      assertEquals(model, predictor.model().getModel());
    }
    return there;
  }

  /** Kills a shard and starts it again with its data. */
  void restartShard(int shard) {
    shards.get(shard).kill();
    shards.get(shard).start();
  }

  Tls tls(String role) {
    return encrypted ? new Tls(folder.resolve("ca.crt"), folder.resolve(role + ".crt"), folder.resolve(role + ".key"))
        : null;
  }

  /** Those of a command line that shows the certificate of a role; none in plaintext. */
  List<Object> tlsFlags(String role, String prefix) {
    Tls tls = tls(role);
    return tls == null ? List.of()
        : List.of(prefix + "ca", tls.ca(), prefix + "cert", tls.cert(), prefix + "key", tls.key());
  }

  /** Those of a patient client with the certificate of a role. */
  Options options(String role) {
    return Options.DEFAULT.withTls(tls(role)).withTimeout(PATIENCE).withPatience(PATIENCE);
  }

  /** A client, which is closed with the cluster. */
  Cluster connect(String role) {
    var cluster = Cluster.connect(address, options(role));
    clients.add(cluster);
    return cluster;
  }

  /** Ends the servers. */
  @Override
  public void close() {
    try {
      for (AutoCloseable client : clients) {
        client.close();
      }
    } catch (Exception e) {
      throw new IllegalStateException(e);
    } finally {
      servers.forEach(Server::kill);
      removeAll(folder);
    }
  }

  /** The ends of the servers' logs. */
  String said() {
    var all = new StringBuilder();
    for (Server server : servers) {
      try {
        String text = Files.readString(server.log);
        all.append(server.command.get(0)).append(":\n").append(text.substring(Math.max(0, text.length() - 1000)));
      } catch (IOException e) {
        all.append(e);
      }
    }
    return all.toString();
  }

  // --- Programs -------------------------------------------------------------------------------

  /**
   * The folder of the programs: DSLIDE_BIN_DIR, or build/bin of the checkout. Without them the test is
   * skipped, but where DSLIDE_BIN_DIR names a folder it fails.
   */
  static Path programs() {
    String named = System.getenv("DSLIDE_BIN_DIR");
    Path folder = named == null ? Path.of("../../build/bin").toAbsolutePath() : Path.of(named);
    if (!Files.exists(folder.resolve("dslide"))) {
      assumeTrue(named != null, "there are no programs in " + folder + ": ./run build, or name their folder in "
          + "DSLIDE_BIN_DIR");
      fail("DSLIDE_BIN_DIR: there are no programs in " + folder);
    }
    return folder;
  }

  private static List<String> command(String program, List<?> arguments) {
    Path path = Path.of(program).isAbsolute() ? Path.of(program) : programs().resolve(program);
    return Stream.concat(Stream.of(path), arguments.stream()).map(Object::toString).toList();
  }

  /** Starts a program; its stderr goes to ours. */
  static Process start(Path folder, String program, Object... arguments) {
    try {
      var process = new ProcessBuilder(command(program, Arrays.asList(arguments))).directory(folder.toFile())
          .redirectError(ProcessBuilder.Redirect.INHERIT).start();
      process.getOutputStream().close();
      return process;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** What a program wrote to stdout until it ended well. */
  static byte[] finish(Process process) {
    try {
      byte[] out = process.getInputStream().readAllBytes();
      assertEquals(true, process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS), "the program goes on");
      assertEquals(0, process.exitValue(), () -> process.info().commandLine().orElse("a program") + " said: "
          + new String(out, StandardCharsets.UTF_8));
      return out;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    } finally {
      process.destroyForcibly();
    }
  }

  /** Runs a program to its end and returns what it wrote to stdout. */
  static byte[] run(String program, Object... arguments) {
    return finish(start(Path.of("."), program, arguments));
  }

  /** From below Linux's ports of outgoing connections, so that none takes it while no server has it. */
  static String freeAddress() {
    while (true) {
      int port = ThreadLocalRandom.current().nextInt(10_000, 32_768);
      try (var probe = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
        return "127.0.0.1:" + probe.getLocalPort();
      } catch (BindException e) {
        continue; // somebody has it
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  static Path temporaryFolder() {
    try {
      return Files.createTempDirectory("dslide-java-");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static void removeAll(Path folder) {
    try (var files = Files.walk(folder)) {
      for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(file);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}

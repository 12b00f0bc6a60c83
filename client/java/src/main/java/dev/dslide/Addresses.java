package dev.dslide;

import java.util.regex.Pattern;

/** Where servers are: "host:port" or "unix:PATH". */
final class Addresses {
  private static final Pattern HOST_PORT =
      Pattern.compile("(?<host>\\[[0-9a-fA-F:.]+]|[^:\\[\\]/]+):(?<port>[0-9]{1,5})");
  private static final Pattern LOOPBACK = Pattern.compile("localhost|127(\\.[0-9]{1,3}){3}|\\[::1]");

  private Addresses() {}

  static boolean isUnix(String address) {
    return address.startsWith("unix:");
  }

  /** Whether a connection does not leave this machine. */
  static boolean staysHere(String address) {
    var parts = HOST_PORT.matcher(address);
    return isUnix(address) || parts.matches() && LOOPBACK.matcher(parts.group("host")).matches();
  }

  static void check(String address, Options options) {
    var parts = HOST_PORT.matcher(address);
    int port = parts.matches() ? Integer.parseInt(parts.group("port")) : 0;
    if (!isUnix(address) && (port < 1 || port > 0xffff)) {
      throw Failures.invalid("address \"%s\" is not host:port (for example 127.0.0.1:7000) or unix:PATH", address);
    }
    if (options.tls() == null && !options.insecure() && !staysHere(address)) {
      throw Failures.invalid("\"%s\" is another machine and the connection would not be encrypted: set Options.tls, "
          + "or Options.insecure to accept that on a network you trust", address);
    }
  }
}

package dev.dslide;

import java.time.Duration;
import java.util.regex.Pattern;

/**
 * How a client calls. Immutable; the {@code with} methods return changed copies.
 *
 * @param tls certificates; null: plaintext, which may not leave this machine unless {@code insecure}
 * @param insecure allows plaintext to other machines, on a network that you trust
 * @param timeout the deadline of each operation, unless the {@link io.grpc.Context} has an earlier one
 * @param patience for so long a call is repeated while nobody answers
 * @param job names the training job in every change of rows, [a-z0-9-]{1,64}
 * @param requestId what every call sends as x-request-id, for the servers' logs: 1 to 64 visible ASCII
 *     characters; "": a new one for each call
 */
public record Options(Tls tls, boolean insecure, Duration timeout, Duration patience, String job, String requestId) {
  // Before DEFAULT, which is checked by them.
  private static final Pattern NAME = Pattern.compile("[a-z0-9-]{1,64}");
  private static final Pattern REQUEST_ID = Pattern.compile("[!-~]{1,64}");

  /** Plaintext, 30 s, 4 s, "default". */
  public static final Options DEFAULT =
      new Options(null, false, Duration.ofSeconds(30), Duration.ofSeconds(4), "default", "");

  /**
   * Checks the settings.
   *
   * @throws dev.dslide.errors.InvalidArgumentException one of them is wrong
   */
  public Options {
    if (timeout.isNegative() || timeout.isZero() || patience.isNegative()) {
      throw Failures.invalid("timeout %s must be above 0, and patience %s not below it", timeout, patience);
    }
    checkName("job", job);
    if (!requestId.isEmpty() && !REQUEST_ID.matcher(requestId).matches()) {
      throw Failures.invalid("requestId \"%s\" is not 1 to 64 visible ASCII characters", requestId);
    }
    if (tls != null && (tls.cert() == null) != (tls.key() == null)) {
      throw Failures.invalid("Tls.cert and Tls.key belong together: give both");
    }
  }

  static void checkName(String what, String name) {
    if (!NAME.matcher(name).matches()) {
      throw Failures.invalid("%s \"%s\" is no name: use 1 to 64 of a-z, 0-9 and -", what, name);
    }
  }

  /** The same with certificates. */
  public Options withTls(Tls files) {
    return new Options(files, insecure, timeout, patience, job, requestId);
  }

  /** The same, in which plaintext may leave this machine, or not. */
  public Options withInsecure(boolean allowed) {
    return new Options(tls, allowed, timeout, patience, job, requestId);
  }

  /** The same with another deadline. */
  public Options withTimeout(Duration limit) {
    return new Options(tls, insecure, limit, patience, job, requestId);
  }

  /** The same with another patience. */
  public Options withPatience(Duration limit) {
    return new Options(tls, insecure, timeout, limit, job, requestId);
  }

  /** The same of another job. */
  public Options withJob(String name) {
    return new Options(tls, insecure, timeout, patience, name, requestId);
  }

  /** The same with one id for all calls. */
  public Options withRequestId(String id) {
    return new Options(tls, insecure, timeout, patience, job, id);
  }
}

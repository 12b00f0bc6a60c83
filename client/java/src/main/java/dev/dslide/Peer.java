package dev.dslide;

import dev.dslide.errors.DeadlineExceededException;
import dev.dslide.errors.DslideException;
import dev.dslide.errors.Failure;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientInterceptors;
import io.grpc.Context;
import io.grpc.Deadline;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.IOException;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HexFormat;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** One server: a connection, and calls with all that belongs to them. Threads may share it. */
final class Peer implements AutoCloseable {
  // Of calls that write or read all rows.
  static final Duration LONG_TIMEOUT = Duration.ofHours(1);
  // For the good-bye to a server that may be gone.
  static final Duration LEAVING_LIMIT = Duration.ofSeconds(5);
  // Messages are at most 4 MiB by the protocol; the margin is for what is around bulk fields.
  private static final int MAX_MESSAGE_BYTES = (4 << 20) + (64 << 10);
  // A window that a connection of loopback fills. Set, it is not measured with pings.
  private static final int WINDOW_BYTES = 16 << 20;
  private static final int CONNECT_TIMEOUT_MS = 3000;
  private static final long FIRST_PAUSE_MS = 50;
  private static final long LONGEST_PAUSE_MS = 2000;
  private static final Metadata.Key<String> CLIENT =
      Metadata.Key.of("dslide-client", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<String> REQUEST_ID =
      Metadata.Key.of("x-request-id", Metadata.ASCII_STRING_MARSHALLER);
  private static final SecureRandom RANDOM = new SecureRandom();

  private final String name;
  private final String remedy;
  private final Options options;
  private final ManagedChannel channel;

  /** Connects when it is first called; name and remedy are for errors. */
  Peer(Options options, String address, String name, String remedy) {
    Addresses.check(address, options);
    this.name = name + " at " + address;
    this.remedy = remedy;
    this.options = options;
    ManagedChannelBuilder<?> builder = builder(address, options.tls()).userAgent("dslide-java/" + Cluster.VERSION)
        .disableRetry() // changes are repeated by their sequence alone
        .maxInboundMessageSize(MAX_MESSAGE_BYTES)
        .keepAliveTime(30, TimeUnit.SECONDS)
        .keepAliveTimeout(10, TimeUnit.SECONDS);
    if (builder instanceof NettyChannelBuilder netty) {
      netty.flowControlWindow(WINDOW_BYTES).withOption(ChannelOption.CONNECT_TIMEOUT_MILLIS, CONNECT_TIMEOUT_MS);
    }
    if (Addresses.staysHere(address)) {
      builder.proxyDetector(target -> null); // none knows this machine's own addresses
    }
    if (Addresses.isUnix(address)) {
      builder.overrideAuthority("localhost"); // whom the server's certificate names there
    }
    channel = builder.build();
  }

  private static ManagedChannelBuilder<?> builder(String address, Tls tls) {
    ChannelCredentials credentials = credentials(tls);
    try {
      return Grpc.newChannelBuilder(address, credentials);
    } catch (RuntimeException e) {
      // It lists what each kind of transport has said; of interest is the one for this address.
      String said = String.valueOf(e.getMessage()).replaceFirst("^.*?NettyChannelProvider: (.*?);.*$", "$1");
      throw Failures.invalid("address \"%s\" with %s: %s", address, tls == null ? "plaintext" : tls, said);
    }
  }

  private static ChannelCredentials credentials(Tls tls) {
    if (tls == null) {
      return InsecureChannelCredentials.create();
    }
    var builder = TlsChannelCredentials.newBuilder();
    Path path = tls.ca();
    try {
      if (tls.ca() != null) {
        builder.trustManager(tls.ca().toFile());
      }
      path = tls.cert();
      if (tls.cert() != null) {
        builder.keyManager(tls.cert().toFile(), tls.key().toFile());
      }
    } catch (IOException e) {
      throw Failures.invalid("Tls: cannot read %s: %s", path, e);
    }
    return builder.build();
  }

  String name() {
    return name;
  }

  String remedy() {
    return remedy;
  }

  Options options() {
    return options;
  }

  Channel channel() {
    return channel;
  }

  @Override
  public void close() {
    channel.shutdownNow();
  }

  String newRequestId() {
    return options.requestId().isEmpty() ? HexFormat.of().formatHex(randomBytes(8)) : options.requestId();
  }

  static byte[] randomBytes(int size) {
    byte[] random = new byte[size];
    RANDOM.nextBytes(random);
    return random;
  }

  static Metadata headers(String requestId) {
    var headers = new Metadata();
    headers.put(CLIENT, "java/" + Cluster.VERSION);
    headers.put(REQUEST_ID, requestId);
    return headers;
  }

  /** When an operation that begins now and may take so long has to end. */
  static Deadline within(Duration timeout) {
    Deadline own = Deadline.after(timeout.toNanos(), TimeUnit.NANOSECONDS);
    Deadline theirs = Context.current().getDeadline();
    return theirs == null ? own : own.minimum(theirs);
  }

  /** One attempt of a unary call. */
  <Q, R> R once(MethodDescriptor<Q, R> method, Q request, Deadline limit) {
    String id = newRequestId();
    try {
      var marked = ClientInterceptors.intercept(channel, MetadataUtils.newAttachHeadersInterceptor(headers(id)));
      return ClientCalls.blockingUnaryCall(marked, method, CallOptions.DEFAULT.withDeadline(limit), request);
    } catch (StatusRuntimeException e) {
      throw Failures.ofCall(this, method.getBareMethodName(), id, e);
    }
  }

  /** A unary call that is safe to repeat. */
  <Q, R> R call(MethodDescriptor<Q, R> method, Q request) {
    return call(method, request, options.timeout());
  }

  <Q, R> R call(MethodDescriptor<Q, R> method, Q request, Duration timeout) {
    return repeat(within(timeout), limit -> once(method, request, limit));
  }

  /** A call whose answer and errors nobody waits for: a server that is gone has nothing to forget. */
  <Q, R> void sayGoodBye(MethodDescriptor<Q, R> method, Q request) {
    try {
      once(method, request, within(LEAVING_LIMIT));
    } catch (DslideException e) {
      return; // as above
    }
  }

  /** One try of something that may be repeated until the limit. */
  interface Attempt<T> {
    T run(Deadline limit);
  }

  /**
   * Makes an attempt again while nobody answers, for as long as is patient, and while the server asks
   * for the same request later, until the time is over.
   */
  <T> T repeat(Deadline limit, Attempt<T> attempt) {
    long start = System.nanoTime();
    DslideException why = null;
    for (int number = 1;; number++) {
      try {
        return attempt.run(limit);
      } catch (DslideException e) {
        if (why != null && e instanceof DeadlineExceededException) {
          throw why;
        }
        if (!Failures.mayRepeat(e)) {
          throw e;
        }
        why = e;
      }
      Duration pause = pause(why, number);
      boolean late = why.retryAfter().isZero() && isLate(start, pause);
      if (late || !sleep(pause, limit)) {
        throw why;
      }
    }
  }

  /** Whether patience ends with a pause. */
  boolean isLate(long start, Duration pause) {
    return System.nanoTime() - start + pause.toNanos() >= options.patience().toNanos();
  }

  /** The pause before a repetition, from 1: what the server asks for, or growing and spread. */
  static Duration pause(DslideException e, int number) {
    if (!e.retryAfter().isZero()) {
      return e.retryAfter();
    }
    long nominal = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << Math.min(number - 1, 10));
    return Duration.ofMillis(nominal / 2 + ThreadLocalRandom.current().nextLong(nominal / 2));
  }

  /**
   * False where the limit, the context or an interruption ends it, or the limit would. Afterwards the
   * transport tries to connect at once.
   */
  boolean sleep(Duration pause, Deadline limit) {
    if (limit.timeRemaining(TimeUnit.NANOSECONDS) <= pause.toNanos() || !sleep(pause)) {
      return false;
    }
    channel.resetConnectBackoff();
    return true;
  }

  /** False where the context or an interruption ends it. */
  static boolean sleep(Duration pause) {
    var cancelled = new CountDownLatch(1);
    Context context = Context.current();
    Context.CancellationListener listener = ended -> cancelled.countDown();
    context.addListener(listener, Runnable::run);
    try {
      return !cancelled.await(pause.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    } finally {
      context.removeListener(listener);
    }
  }

  /** What is thrown when the caller's time is over while it waits for something on this side. */
  static DslideException ended(String what) {
    boolean cancelled = Thread.currentThread().isInterrupted() || Context.current().isCancelled();
    return Failure.of(cancelled ? Status.Code.CANCELLED : Status.Code.DEADLINE_EXCEEDED, what).exception();
  }
}

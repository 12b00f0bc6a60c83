package dev.dslide;

import com.google.protobuf.ByteString;
import dev.dslide.errors.DeadlineExceededException;
import dev.dslide.errors.DslideException;
import dev.dslide.errors.NotFoundException;
import dev.dslide.errors.UnavailableException;
import dev.dslide.v1.AcquireWorkRequest;
import dev.dslide.v1.AcquireWorkResponse;
import dev.dslide.v1.CoordinatorServiceGrpc;
import dev.dslide.v1.JobSpec;
import dev.dslide.v1.LeaveJobRequest;
import dev.dslide.v1.RegisterJobRequest;
import dev.dslide.v1.WorkReport;
import io.grpc.Context;
import io.grpc.Deadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * A trainer's parts of a job's work: it asks for work, and what it holds is renewed in the background.
 * Made by {@link Steps#join}. Belongs to one thread at a time. Close it, so that nobody waits for its
 * leases to run out.
 */
public final class Leases implements AutoCloseable {
  private static final Duration RENEW_EVERY = Duration.ofSeconds(1);
  private static final Duration ASK_LIMIT = Duration.ofSeconds(10);
  // For so long the coordinator may be away.
  private static final Duration AWAY_LIMIT = Duration.ofMinutes(2);

  private final Peer coordinator;
  private final JobSpec job;
  private final ByteString clientId;
  // Guarded by this, during a call, too: what it reports is reported once.
  private final Set<Long> held = new LinkedHashSet<>();
  private final List<WorkReport> finished = new ArrayList<>();
  private final ScheduledExecutorService renewing = Executors.newSingleThreadScheduledExecutor(task -> {
    var thread = new Thread(task, "dslide-leases");
    thread.setDaemon(true);
    return thread;
  });

  Leases(Peer coordinator, JobSpec job, ByteString clientId) {
    this.coordinator = coordinator;
    this.job = job;
    this.clientId = clientId;
    try {
      register();
    } catch (RuntimeException e) {
      renewing.shutdown();
      throw e;
    }
    renewing.scheduleWithFixedDelay(this::renew, RENEW_EVERY.toMillis(), RENEW_EVERY.toMillis(),
        TimeUnit.MILLISECONDS);
  }

  private void register() {
    coordinator.call(CoordinatorServiceGrpc.getRegisterJobMethod(),
        RegisterJobRequest.newBuilder().setSpec(job).setClientId(clientId).build());
  }

  private void renew() {
    try {
      ask(false);
    } catch (DslideException e) {
      return; // a renewal that is lost shows at the next call that wants work
    }
  }

  private AcquireWorkRequest.Builder request() {
    return AcquireWorkRequest.newBuilder().setJob(job.getJob()).setClientId(clientId).addAllFinished(finished)
        .addAllHeld(held);
  }

  /** Reports, renews and, where it wants work, asks for more. One attempt. */
  private synchronized AcquireWorkResponse ask(boolean wantWork) {
    Duration timeout = coordinator.options().timeout();
    Deadline limit = Peer.within(timeout.compareTo(ASK_LIMIT) < 0 ? timeout : ASK_LIMIT);
    AcquireWorkResponse answer = coordinator.once(CoordinatorServiceGrpc.getAcquireWorkMethod(),
        request().setWantWork(wantWork).build(), limit);
    finished.clear();
    // At most one of them is not 0.
    long lease = answer.getChunk().getLeaseId() | answer.getEvaluation().getLeaseId() | answer.getStage().getLeaseId();
    if (lease != 0) {
      held.add(lease);
    }
    return answer;
  }

  /**
   * Reports what is finished and returns the next work: a chunk, an evaluation, a stage, or the end of the
   * job. It waits while other trainers have all that there is, until the context or an interruption ends
   * it. A coordinator that was restarted and has forgotten the job is told of it again: what was held is
   * then no more, and a report of it is ignored.
   *
   * <p>An evaluation or a stage comes when no step is in flight anywhere: have none in flight when you ask.
   */
  public AcquireWorkResponse next() {
    long awaySince = 0; // 0: it is there
    for (int number = 1;; number++) {
      try {
        AcquireWorkResponse work = ask(true);
        if (!work.hasWait()) {
          return work;
        }
        awaySince = 0;
        number = 0;
        if (!Peer.sleep(Failures.duration(work.getWait().getRetryAfter()))) {
          throw Peer.ended("job " + job.getJob() + ": the caller's time ended before there was work");
        }
      } catch (NotFoundException e) {
        joinAgain();
      } catch (UnavailableException | DeadlineExceededException e) {
        awaySince = awaySince == 0 ? System.nanoTime() : awaySince;
        Duration pause = Peer.pause(e, number);
        boolean late = System.nanoTime() - awaySince + pause.toNanos() >= AWAY_LIMIT.toNanos();
        if (Context.current().isCancelled() || late || !coordinator.sleep(pause, Peer.within(AWAY_LIMIT))) {
          throw e;
        }
      }
    }
  }

  private void joinAgain() {
    synchronized (this) {
      held.clear();
      finished.clear();
    }
    register();
  }

  /**
   * Says what became of a lease. The next call of {@link #next} reports it. Leases that are not held any
   * more are ignored.
   */
  public synchronized void finish(WorkReport report) {
    if (held.remove(report.getLeaseId())) {
      finished.add(report);
    }
  }

  /** Reports what is finished and returns the leases. A coordinator that is gone has nothing to take back. */
  @Override
  public void close() {
    renewing.shutdown();
    synchronized (this) {
      Context.ROOT.run(() -> {
        if (!finished.isEmpty()) {
          coordinator.sayGoodBye(CoordinatorServiceGrpc.getAcquireWorkMethod(), request().build());
        }
        coordinator.sayGoodBye(CoordinatorServiceGrpc.getLeaveJobMethod(),
            LeaveJobRequest.newBuilder().setJob(job.getJob()).setClientId(clientId).build());
      });
    }
  }
}

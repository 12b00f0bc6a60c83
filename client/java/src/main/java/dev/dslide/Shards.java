package dev.dslide;

import io.grpc.Context;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;

/** All shards of a cluster, by ordinal, and the threads in which they are asked beside each other. */
final class Shards implements Iterable<Shard> {
  private final List<Shard> list;
  private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
    var thread = new Thread(task, "dslide");
    thread.setDaemon(true);
    return thread;
  });

  Shards(List<Shard> list) {
    this.list = List.copyOf(list);
  }

  int size() {
    return list.size();
  }

  @Override
  public Iterator<Shard> iterator() {
    return list.iterator();
  }

  Shard get(int ordinal) {
    return list.get(ordinal);
  }

  /**
   * Runs a task beside each other for all shards and waits for all of them, also when one fails or the
   * caller is interrupted: nothing looks at the caller's arrays afterwards. Throws the first failure by
   * ordinal, with the others suppressed.
   */
  void each(Consumer<Shard> task) {
    try (var context = Context.current().withCancellation()) {
      var running = new ArrayList<Future<?>>();
      for (Shard shard : list.subList(1, list.size())) {
        running.add(threads.submit(context.wrap(() -> task.accept(shard))));
      }
      RuntimeException failure = null;
      try {
        context.run(() -> task.accept(list.get(0)));
      } catch (RuntimeException e) {
        failure = e;
      }
      for (Future<?> one : running) {
        failure = joined(failure, outcome(one, context));
      }
      if (failure != null) {
        throw failure;
      }
    }
  }

  private static RuntimeException outcome(Future<?> task, Context.CancellableContext context) {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          task.get();
          return null;
        } catch (InterruptedException e) {
          interrupted = true;
          context.cancel(e);
        } catch (ExecutionException e) {
          if (e.getCause() instanceof RuntimeException failure) {
            return failure;
          }
          throw new IllegalStateException(e.getCause()); // tasks throw no others, but errors of the machine
        }
      }
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private static RuntimeException joined(RuntimeException first, RuntimeException other) {
    if (first == null) {
      return other;
    }
    if (other != null) {
      first.addSuppressed(other);
    }
    return first;
  }

  /** Says good-bye to all, and closes the connections. */
  void close() {
    each(Shard::close);
    threads.shutdown();
  }
}

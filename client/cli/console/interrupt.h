// Ctrl-C and SIGTERM as a question that long commands ask now and then.

#pragma once

namespace dslide::cli {

// While one exists, the first SIGINT or SIGTERM sets a flag and a later one ends the process. One
// per process at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  // Restores what signals did before.
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool Interrupted();
  // As the first signal would: for programs that take signals in another way.
  static void Interrupt();
};

}  // namespace dslide::cli

// Processors that do not fall asleep between two measurements.

#pragma once

#include <sys/types.h>

#include <vector>

namespace dslide::bench {

// Keeps the CPUs from halting while it lives and is not paused: a halted virtual CPU takes tens of
// microseconds to wake, which is then what a latency shows. One process per CPU at the lowest
// priority there is (SCHED_IDLE, nice 19), so that anybody else runs first.
//
// Not for rates: where a hypervisor moves busy virtual CPUs apart, bytes that pass from one to the
// other take several times as long after some seconds (raw TCP: 7 -> 1.6 GB/s).
class Spinners {
 public:
  Spinners();
  ~Spinners();
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;

  void Pause();
  void Resume();

  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace dslide::bench

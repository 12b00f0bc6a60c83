// The machine that a number belongs to, and who else is using it.

#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace dslide::bench {

// "Intel(R) Xeon(R) Processor, 2 CPUs"; "unknown" parts where the system does not say.
std::string CpuDescription();
// TCP congestion control of new sockets, e.g. "bbr".
std::string CongestionControl();

// Seconds of CPU that a process has used, all threads; 0 when it is gone. `pid` 0: this one.
double CpuSeconds(pid_t pid);

// How many CPUs other processes keep busy, on average, from construction on.
class ForeignLoadMeter {
 public:
  // `own` are the processes of the measurement beside this one; they must live on.
  explicit ForeignLoadMeter(std::vector<pid_t> own);
  // CPUs, at least 0.
  double Load() const;

 private:
  double Foreign() const;  // CPU seconds since the machine started

  const std::vector<pid_t> own_;
  double start_seconds_ = 0;
  double start_foreign_ = 0;
};

// Keeps the CPUs from halting while it lives: a halted virtual CPU takes tens of microseconds to
// wake, which is then what a latency shows. One process per CPU at the lowest priority there is
// (SCHED_IDLE, nice 19), so that anybody else runs first.
class Spinners {
 public:
  Spinners();
  ~Spinners();
  Spinners(const Spinners&) = delete;
  Spinners& operator=(const Spinners&) = delete;

  const std::vector<pid_t>& pids() const { return pids_; }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace dslide::bench

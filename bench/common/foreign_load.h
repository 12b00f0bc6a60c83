// How busy a machine is with everything but the benchmark: without it, a figure cannot be believed.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide::bench {

// Clock ticks since boot, of all processors together, in which a processor did something: user,
// nice, system, interrupts and the time that a hypervisor took away. Idle and waiting for a disk
// are not in it; guest time is part of user and not counted twice.
//
//   proc_stat : the text of /proc/stat
// Errors: InvalidArgument when the text does not begin with a "cpu" line of at least 8 numbers.
absl::StatusOr<int64_t> BusyTicks(absl::string_view proc_stat);

// Processors that others kept busy, from what all did and what the benchmark did; at least 0.
//   busy, own : CPU time;  wall : elapsed, above 0
double ForeignProcessors(absl::Duration busy, absl::Duration own, absl::Duration wall);

// Seconds of processor time that a process has used, all threads; 0 when it is gone.
double ProcessorSeconds(pid_t pid);

// Measures from construction to Processors(). Own is this process, those of its children that have
// ended and were waited for, and what the caller names. What the kernel does on the benchmark's
// behalf in interrupts (loopback traffic, for example) counts as foreign. Not thread-safe.
class ForeignLoad {
 public:
  // `own` are further processes of the benchmark, which must live on.
  explicit ForeignLoad(std::vector<pid_t> own = {});

  // The mean number of processors that everything else kept busy since construction: 0 on a quiet
  // machine, 1.0 when one processor was taken. NaN when /proc/stat cannot be read.
  double Processors() const;

 private:
  absl::Duration OwnTime() const;

  const std::vector<pid_t> processes_;
  absl::Duration wall_;
  absl::Duration own_;
  absl::StatusOr<absl::Duration> busy_;
};

}  // namespace dslide::bench

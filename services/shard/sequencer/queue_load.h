// How much waits in front of a shard, and how long it will probably take.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace dslide::shard {

// Commands cost between microseconds and seconds, so how many wait says little about how long the
// next one would. Each kind (any small number) is expected to take what its last ones took (an
// average that forgets by eighths), and the work that waits is the sum of that.
//
// Thread safety: of one thread at a time.
class QueueLoad {
 public:
  // What a command that comes now will probably take; zero before the first of its kind.
  absl::Duration Expect(size_t kind) const;
  // One was applied in that time.
  void Learn(size_t kind, absl::Duration took);

  // A request enters and leaves the queue; `expected` is what Expect() said when it came.
  void Enter(int64_t bytes, absl::Duration expected);
  void Leave(int64_t bytes, absl::Duration expected);

  int64_t bytes() const { return bytes_; }
  absl::Duration work() const { return work_; }

 private:
  std::vector<absl::Duration> typical_;  // by kind
  int64_t bytes_ = 0;
  absl::Duration work_;
};

}  // namespace dslide::shard

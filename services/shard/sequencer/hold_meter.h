// For how long a freeze has made requests wait: the time in which at least one was held.

#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace dslide::shard {

// Not thread-safe.
class HoldMeter {
 public:
  void Reset() { total_ = absl::ZeroDuration(); }  // a hold that goes on counts from its begin

  void Note(bool holding, absl::Duration now) {
    if (holding == (since_ != absl::InfiniteDuration())) return;
    if (!holding) total_ += now - since_;
    since_ = holding ? now : absl::InfiniteDuration();
  }

  // Since the reset; counting what waits since `other`, too, which may be infinite.
  absl::Duration Total(absl::Duration now, absl::Duration other) const {
    return total_ + now - std::min({since_, other, now});
  }

 private:
  absl::Duration since_ = absl::InfiniteDuration();  // infinite: nothing is held
  absl::Duration total_;
};

}  // namespace dslide::shard

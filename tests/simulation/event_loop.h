// Time and order of a simulation: events run one after the other on one thread, in virtual time.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace dslide::simulation {

// Not thread-safe.
class EventLoop final : public Clock {
 public:
  absl::Duration Now() const override { return now_; }

  // Runs `event` at that time; those of one time in the order in which they were asked for.
  void At(absl::Duration when, std::function<void()> event);
  void After(absl::Duration pause, std::function<void()> event) {
    At(now_ + pause, std::move(event));
  }

  // Runs events until `done()`, which is asked between any two of them. False when nothing is left
  // to run up to `end`; the time is then `end`. An event may call it: that is how a call that
  // blocks lets time go on.
  bool RunUntil(absl::Duration end, absl::FunctionRef<bool()> done);

  int64_t events() const { return events_; }

 private:
  struct Entry {
    absl::Duration when;
    uint64_t number = 0;
    std::function<void()> event;
  };
  static bool Later(const Entry& a, const Entry& b) {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  absl::Duration now_ = absl::ZeroDuration();
  uint64_t next_number_ = 0;
  int64_t events_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace dslide::simulation

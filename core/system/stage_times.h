// Where the time of a shard's commands goes, stage by stage.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace dslide {

// The parts of a training step on a shard. The last three are the upkeep of the hash tables.
enum class Stage : uint8_t {
  kEmbedForward,  // sums of feature rows
  kEmbedUpdate,   // gradients and updates of feature rows
  kLookup,        // buckets read: which rows share one with a query
  kRanking,       // those rows' codes compared, the best kept
  kInversion,     // (row, sample) pairs sorted by row; tail rows drawn
  kForward,       // logits and softmax sums of the selected rows
  kRecall,        // exact scans for sampled queries
  kHeadUpdate,    // gradients and updates of the selected rows
  kCentring,      // mean row and norm bound measured
  kRehash,        // fingerprints of changed rows
  kTableBuild,    // rows sorted into buckets
};
inline constexpr int64_t kNumStages = 11;

// A word for metrics and JSON: "embed_forward", "lookup", ....
absl::string_view StageName(Stage stage);

// Sums of wall-clock time, as the thread that applies commands sees it. A figure only: nothing is
// decided by it. Thread safety: safe from any thread.
class StageTimes {
 public:
  // `clock` outlives it.
  explicit StageTimes(const Clock& clock) : clock_(clock) {}

  absl::Duration Now() const { return clock_.Now(); }
  const Clock& clock() const { return clock_; }

  void Add(Stage stage, absl::Duration duration) {
    nanoseconds_[static_cast<size_t>(stage)].fetch_add(absl::ToInt64Nanoseconds(duration),
                                                       std::memory_order_relaxed);
  }

  absl::Duration Total(Stage stage) const {
    return absl::Nanoseconds(
        nanoseconds_[static_cast<size_t>(stage)].load(std::memory_order_relaxed));
  }

 private:
  const Clock& clock_;
  std::array<std::atomic<int64_t>, kNumStages> nanoseconds_ = {};
};

// Adds the time of a scope to one stage. Without StageTimes it does nothing.
class ScopedStage {
 public:
  ScopedStage(StageTimes* times, Stage stage)
      : times_(times),
        stage_(stage),
        start_(times == nullptr ? absl::ZeroDuration() : times->Now()) {}
  ~ScopedStage() {
    if (times_ != nullptr) times_->Add(stage_, times_->Now() - start_);
  }
  ScopedStage(const ScopedStage&) = delete;
  ScopedStage& operator=(const ScopedStage&) = delete;

 private:
  StageTimes* const times_;
  const Stage stage_;
  const absl::Duration start_;
};

}  // namespace dslide

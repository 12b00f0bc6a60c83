#include "services/coordinator/checkpoints/checkpoint_figures.h"

#include <functional>
#include <utility>

namespace dslide::coordinator {

CheckpointFigures::CheckpointFigures(int64_t full_every, const Clock* clock, Metrics* metrics)
    : clock_(clock),
      metrics_(metrics),
      state_{.last = clock->Now(),
             .scrubbed = clock->Now(),
             .costs = CheckpointCosts(static_cast<size_t>(full_every))} {
  AddGauges();
  AddCounters();
}

CheckpointFigures::~CheckpointFigures() { metrics_->RemoveCallbacks(this); }

void CheckpointFigures::AddGauges() {
  const auto gauge = [this](const char* name, const char* help, Read read) {
    metrics_->AddGaugeCallback(this, name, help, {}, [this, read] {
      const absl::MutexLock lock(&mu_);
      return read(state_, clock_->Now());
    });
  };
  gauge("dslide_coordinator_checkpoint_id",
        "Number of the newest cluster checkpoint of this process; 0 before the first.",
        [](const State& state, absl::Duration) {
          return static_cast<double>(state.last_checkpoint_id);
        });
  gauge("dslide_coordinator_checkpoint_age_seconds",
        "Since the newest cluster checkpoint of this process, or its start.",
        [](const State& state, absl::Duration now) {
          return absl::ToDoubleSeconds(now - state.last);
        });
  gauge("dslide_coordinator_checkpoint_duration_seconds",
        "What the newest cluster checkpoint took, from the freeze until it was committed.",
        [](const State& state, absl::Duration) { return absl::ToDoubleSeconds(state.duration); });
  gauge("dslide_coordinator_checkpoint_stall_seconds",
        "How long trainers stood still for the newest cluster checkpoint.",
        [](const State& state, absl::Duration) { return absl::ToDoubleSeconds(state.stall); });
  gauge("dslide_coordinator_checkpoints_damaged",
        "Committed cluster checkpoints that the last verification found damaged.",
        [](const State& state, absl::Duration) { return static_cast<double>(state.damaged); });
  gauge("dslide_coordinator_checkpoint_scrub_age_seconds",
        "Since every committed cluster checkpoint was last read and compared, or the start.",
        [](const State& state, absl::Duration now) {
          return absl::ToDoubleSeconds(now - state.scrubbed);
        });
}

void CheckpointFigures::AddCounters() {
  const auto counter = [this](const char* name, const char* help, const MetricLabels& labels,
                              Read read) {
    metrics_->AddCounterCallback(this, name, help, labels, [this, read] {
      const absl::MutexLock lock(&mu_);
      return read(state_, clock_->Now());
    });
  };
  counter("dslide_coordinator_checkpoint_failures_total",
          "Cluster checkpoints that were begun and not committed.", {},
          [](const State& state, absl::Duration) { return static_cast<double>(state.failures); });
  const auto committed = [&](const char* kind, Read read) {
    counter(
        "dslide_coordinator_checkpoints_committed_total",
        "Cluster checkpoints committed: with all rows, or built on the one before by some shard.",
        {{"kind", kind}}, read);
  };
  committed("full", [](const State& state, absl::Duration) {
    return static_cast<double>(state.full.checkpoints);
  });
  committed("incremental", [](const State& state, absl::Duration) {
    return static_cast<double>(state.incremental.checkpoints);
  });
  const auto written = [&](const char* kind, Read read) {
    counter("dslide_coordinator_checkpoint_written_bytes_total",
            "Bytes that shards wrote for them, without those shared with an earlier one.",
            {{"kind", kind}}, read);
  };
  written("full",
          [](const State& state, absl::Duration) { return static_cast<double>(state.full.bytes); });
  written("incremental", [](const State& state, absl::Duration) {
    return static_cast<double>(state.incremental.bytes);
  });
}

void CheckpointFigures::AddTaken(const Manifest& manifest) {
  const absl::MutexLock lock(&mu_);
  state_.last = clock_->Now();
  state_.last_checkpoint_id = manifest.checkpoint_id;
  state_.duration = absl::Microseconds(manifest.duration_us);
  state_.stall = absl::Microseconds(manifest.stall_us);
  state_.costs.Add(state_.duration);
  Sum& sum = IsIncrement(manifest) ? state_.incremental : state_.full;
  ++sum.checkpoints;
  sum.bytes += SummaryOf(manifest).written_bytes();
}

void CheckpointFigures::AddFailure() {
  const absl::MutexLock lock(&mu_);
  ++state_.failures;
}

void CheckpointFigures::SetDamaged(int64_t checkpoints) {
  const absl::MutexLock lock(&mu_);
  state_.damaged = checkpoints;
}

void CheckpointFigures::SetScrubbed() {
  const absl::MutexLock lock(&mu_);
  state_.scrubbed = clock_->Now();
}

CheckpointFigures::View CheckpointFigures::view() const {
  const absl::MutexLock lock(&mu_);
  return {.last_checkpoint_id = state_.last_checkpoint_id,
          .age = clock_->Now() - state_.last,
          .failures = state_.failures,
          .scrub_age = clock_->Now() - state_.scrubbed,
          .mean_cost = state_.costs.Mean()};
}

}  // namespace dslide::coordinator

// The coordinator's jobs on a simulated disk.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/coordinator/jobs/job_store.h"
#include "tests/simulation/network.h"

namespace dslide::simulation {

using JobDisk = std::map<std::string, coordinator::JobState>;

// Writes nothing once the process has died. Not thread-safe.
class MemoryJobs final : public coordinator::JobStore {
 public:
  // `disk` outlives it.
  MemoryJobs(NodePtr node, JobDisk& disk) : node_(std::move(node)), disk_(disk) {}

  absl::StatusOr<std::vector<coordinator::JobState>> Load() const override {
    std::vector<coordinator::JobState> states;
    for (const auto& [name, state] : disk_) states.push_back(state);
    return states;
  }
  absl::Status Put(const coordinator::JobState& state) override {
    if (!node_->alive()) return absl::UnavailableError("the coordinator has died");
    disk_[state.record.spec.job] = state;
    return absl::OkStatus();
  }
  absl::Status Remove(const std::string& job) override {
    if (!node_->alive()) return absl::UnavailableError("the coordinator has died");
    disk_.erase(job);
    return absl::OkStatus();
  }

 private:
  const NodePtr node_;
  JobDisk& disk_;
};

}  // namespace dslide::simulation

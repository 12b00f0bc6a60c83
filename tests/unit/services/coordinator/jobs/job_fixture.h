// A job, and trainers that ask for its work.

#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "services/coordinator/jobs/job.h"

namespace dslide::coordinator {

inline ClientId Client(uint8_t number) { return {number}; }

inline JobSpec Spec(int64_t samples, int64_t chunk, int64_t epochs) {
  JobSpec spec;
  spec.job = "job";
  spec.model = "model";
  spec.samples_per_epoch = samples;
  spec.chunk_samples = chunk;
  spec.max_epochs = epochs;
  return spec;
}

class JobFixture : public ::testing::Test {
 protected:
  Work Ask(Job& job, uint8_t client, std::vector<LeaseReport> finished = {},
           std::vector<LeaseId> held = {}, bool want_work = true) {
    auto work =
        job.Acquire({"", Client(client), std::move(finished), std::move(held), want_work}, now_);
    EXPECT_TRUE(work.ok()) << work.status();
    return work.ok() ? *work : Work();
  }
  ChunkWork AskChunk(Job& job, uint8_t client, std::vector<LeaseReport> finished = {},
                     std::vector<LeaseId> held = {}) {
    const Work work = Ask(job, client, std::move(finished), std::move(held));
    EXPECT_TRUE(std::holds_alternative<ChunkWork>(work)) << work.index();
    return std::holds_alternative<ChunkWork>(work) ? std::get<ChunkWork>(work) : ChunkWork();
  }
  static LeaseReport Done(const ChunkWork& chunk) {
    return {.lease = chunk.lease, .samples = chunk.count};
  }

  const JobTiming timing_{.lease_timeout = absl::Seconds(10), .wait = absl::Milliseconds(20)};
  absl::Duration now_ = absl::Seconds(1000);
};

}  // namespace dslide::coordinator

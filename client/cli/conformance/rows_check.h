// Whether a client reads, changes and ranks the rows of the course as it was asked to.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "client/cli/conformance/course.h"
#include "client/cli/conformance/course_slots.h"
#include "client/cli/conformance/verdicts.h"
#include "core/protocol/commands.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::cli {

// Thread safety: safe from any thread.
class RowsCheck {
 public:
  // All outlive it.
  RowsCheck(const Course& course, const CourseSlots& slots, uint64_t topology_version,
            Verdicts& verdicts);

  void Gather(int shard, const v1::GatherRequest& request) ABSL_LOCKS_EXCLUDED(mu_);
  // The messages of one scatter that is the client's next one.
  void Scatter(int shard, absl::Span<const v1::ScatterRequest> messages) ABSL_LOCKS_EXCLUDED(mu_);
  void TopK(int shard, const v1::TopKRequest& request, const v1::TopKResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The client is done: tells what it did not do of what it has begun.
  void Finish() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Place {
    Chapter chapter = Chapter::kGather;
    const char* call = "";
    int shard = 0;
    const char* section = "";
  };
  void Tell(const Place& place, std::string field, std::string found, std::string expected);
  // The rows of one call, checked for their order; nullopt when they cannot be read.
  std::optional<RowBlock> Joined(const Place& place, absl::Span<const v1::ScatterRequest> messages);
  void CheckChange(const Place& place, absl::Span<const v1::ScatterRequest> messages,
                   const RowBlock& found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckAnswers(int shard, v1::ScatterMode mode, const RowBlock& found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckAnswer(int shard, uint32_t row, absl::Span<const float> found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<float> FirstRow(RowId row) const;
  // The ids of the best labels of a query, as the shards' answers say; empty before all have.
  std::vector<float> BestOf(size_t query) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Course& course_;
  const CourseSlots& slots_;
  const uint64_t topology_version_;
  Verdicts& verdicts_;
  absl::Mutex mu_;
  std::set<RowId> gathered_ ABSL_GUARDED_BY(mu_);
  std::vector<size_t> scatters_ ABSL_GUARDED_BY(mu_);  // by shard: how many there were
  std::set<uint32_t> answered_ ABSL_GUARDED_BY(mu_);   // rows of the table of answers
  // By query and shard.
  std::map<std::pair<size_t, int>, TopKReply> best_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::cli

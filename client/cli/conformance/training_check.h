// Whether a client takes work from a job as it must, and trains with it as the product would.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/conformance/course.h"
#include "client/cli/conformance/net_reference.h"
#include "client/cli/conformance/step_check.h"
#include "client/cli/conformance/verdicts.h"
#include "dslide/v1/coordinator.pb.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::cli {

// Thread safety: safe from any thread.
class TrainingCheck {
 public:
  // `verdicts` outlives it. Errors: those of NetReference::Create().
  static absl::StatusOr<std::unique_ptr<TrainingCheck>> Create(const Course& course,
                                                               Verdicts& verdicts);

  void Registered(const v1::JobSpec& spec) ABSL_LOCKS_EXCLUDED(mu_);
  // A call that the coordinator has answered.
  void Acquired(const v1::AcquireWorkRequest& request, const v1::AcquireWorkResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  // An operation that is its client's next one on the shard.
  void Request(int shard, const v1::StepRequest& request) ABSL_LOCKS_EXCLUDED(mu_);
  // What the shard answers to the operation, before the client is told.
  void Answer(int shard, const v1::StepRequest& request, const v1::StepResponse& response)
      ABSL_LOCKS_EXCLUDED(mu_);
  // The client is done: tells what it has left open.
  void Finish() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Lease {
    const NetReference* net = nullptr;
    int64_t epoch = 0;
    int64_t first = 0;
    int64_t count = 0;
    int64_t begun = 0;     // points of batches that steps have begun with
    int64_t finished = 0;  // points of steps that are done
    double loss_sum = 0;
  };
  struct Open {
    uint64_t lease = 0;
    StepCheck check;
  };
  using Key = std::pair<std::string, int64_t>;  // client, step

  explicit TrainingCheck(Verdicts& verdicts) : verdicts_(verdicts) {}
  const NetReference* NetOf(const std::string& model) const;
  // Of the network's chapter, or of that of jobs.
  void Tell(Chapter chapter, const char* call, std::string field, std::string found,
            std::string expected);
  void CheckReport(const v1::WorkReport& report) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The step of an operation; one that begins gets the next batch of a lease. Null, and told of,
  // where there is none.
  StepCheck* Find(const v1::StepRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckNumbers(int shard, Chapter chapter, const v1::StepRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Verdicts& verdicts_;
  std::vector<std::unique_ptr<NetReference>> nets_;  // constant after Create
  absl::Mutex mu_;
  std::map<uint64_t, Lease> leases_ ABSL_GUARDED_BY(mu_);  // not reported yet
  std::deque<uint64_t> to_begin_ ABSL_GUARDED_BY(mu_);     // leases with points, the oldest first
  std::map<Key, Open> steps_ ABSL_GUARDED_BY(mu_);         // not done yet
  std::map<std::string, int64_t> highest_ ABSL_GUARDED_BY(mu_);  // step, by client
};

}  // namespace dslide::cli

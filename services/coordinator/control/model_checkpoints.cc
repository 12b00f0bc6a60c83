#include "services/coordinator/control/model_checkpoints.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/job_work.h"
#include "core/system/log.h"
#include "services/coordinator/membership/fan_out.h"
#include "services/coordinator/membership/names.h"

namespace dslide::coordinator {

absl::Status ModelCheckpoints::Check(const ClusterRegistry& registry, const std::string& model,
                                     const std::string& checkpoint) {
  RETURN_IF_ERROR(CheckName("model", model));
  RETURN_IF_ERROR(CheckName("checkpoint", checkpoint));
  return registry.FindModel(model);
}

std::vector<std::string> ModelCheckpoints::BestKept(const std::string& model,
                                                    const std::string& checkpoint) const {
  if (!absl::StartsWith(checkpoint, kBestCheckpointPrefix)) return {};
  std::vector<std::string> kept = {checkpoint};
  for (const JobStatus& job : jobs_->List()) {
    const std::string best = BestCheckpointOf(job.job);
    if (job.model == model && !job.finished && best != checkpoint) kept.push_back(best);
  }
  return kept;
}

absl::StatusOr<CheckpointSize> ModelCheckpoints::Create(const std::string& model,
                                                        const std::string& checkpoint,
                                                        absl::Duration timeout,
                                                        WorkProgress& progress) {
  RETURN_IF_ERROR(Check(*registry_, model, checkpoint));
  ASSIGN_OR_RETURN(const ClusterMap map, registry_->Map());
  const std::vector<std::string> best_kept = BestKept(model, checkpoint);
  std::vector<absl::Status> results(map.shards.size());
  std::vector<CheckpointSize> sizes(map.shards.size());
  progress.Begin("writing", map.shards.size());
  FanOut(results.size(), [&](size_t i) {
    auto size =
        shards_->WriteCheckpoint(map.shards[i].address, model, checkpoint, best_kept, timeout);
    results[i] = size.status();
    if (size.ok()) sizes[i] = *size;
    progress.ShardDone();
  });
  RETURN_IF_ERROR(
      CombineFailures(absl::StrCat("writing checkpoint \"", checkpoint, "\" of \"", model, "\""),
                      map.shards, results));
  CheckpointSize sum;
  for (const CheckpointSize& size : sizes) {
    sum.rows += size.rows;
    sum.bytes += size.bytes;
  }
  LogInfo("checkpoint written",
          {{"model", model}, {"checkpoint", checkpoint}, {"rows", sum.rows}, {"bytes", sum.bytes}});
  return sum;
}

absl::StatusOr<int64_t> ModelCheckpoints::Restore(const std::string& model,
                                                  const std::string& checkpoint,
                                                  absl::Duration timeout, WorkProgress& progress) {
  RETURN_IF_ERROR(Check(*registry_, model, checkpoint));
  ASSIGN_OR_RETURN(const ClusterMap map, registry_->Map());
  std::vector<absl::Status> results(map.shards.size());
  std::vector<int64_t> rows(map.shards.size());
  progress.Begin("restoring", map.shards.size());
  FanOut(results.size(), [&](size_t i) {
    const auto restored =
        shards_->LoadCheckpoint(map.shards[i].address, model, checkpoint, timeout);
    results[i] = restored.status();
    if (restored.ok()) rows[i] = *restored;
    progress.ShardDone();
  });
  RETURN_IF_ERROR(
      CombineFailures(absl::StrCat("restoring checkpoint \"", checkpoint, "\" of \"", model, "\""),
                      map.shards, results));
  int64_t sum = 0;
  for (const int64_t restored : rows) sum += restored;
  LogInfo("checkpoint restored", {{"model", model}, {"checkpoint", checkpoint}, {"rows", sum}});
  return sum;
}

}  // namespace dslide::coordinator

#include "services/coordinator/rpc/status_page.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

StatusTable ShardTable(const ClusterStatus& status) {
  StatusTable table{
      "Shards", {"shard", "address", "health", "generation", "weight", "memory", "commands"}, {}};
  for (const ShardView& shard : status.shards) {
    table.rows.push_back({absl::StrCat(shard.shard.value()), EscapeForLog(shard.address, 80),
                          ShardHealthName(shard.health), absl::StrCat(shard.generation),
                          absl::StrFormat("%g", shard.capacity_weight),
                          PageBytes(static_cast<double>(shard.memory_bytes)),
                          PageCount(static_cast<double>(shard.applied_commands))});
  }
  return table;
}

StatusTable JobTable(const ClusterStatus& status) {
  StatusTable table{"Jobs", {"job", "model", "state", "samples", "trainers", "best P@1"}, {}};
  for (const JobView& job : status.jobs) {
    const JobProgress& progress = job.progress;
    table.rows.push_back(
        {job.spec.job, job.spec.model,
         progress.finished
             ? "finished"
             : absl::StrFormat("epoch %d of %d", progress.epoch + 1, job.spec.max_epochs),
         absl::StrCat(PageCount(static_cast<double>(progress.samples_done)), " of ",
                      PageCount(static_cast<double>(job.spec.samples_per_epoch))),
         absl::StrCat(progress.trainers),
         progress.best_epoch < 0
             ? "none yet"
             : absl::StrFormat("%.4f, epoch %d", progress.best_metric, progress.best_epoch + 1)});
  }
  return table;
}

}  // namespace

StatusPage MakeStatusPage(const ClusterStatus& status) {
  StatusPage page;
  page.facts = {{"Shards", absl::StrCat(status.shards.size(), " of ", status.expected_shards)},
                {"Topology version", absl::StrCat(status.topology_version)},
                {"Models", status.models.empty() ? "none" : absl::StrJoin(status.models, ", ")}};
  page.tables.push_back(ShardTable(status));
  page.tables.push_back(JobTable(status));
  return page;
}

}  // namespace dslide::coordinator

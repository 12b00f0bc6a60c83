#include "services/coordinator/rpc/status_page.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

// The newest, and of an error what tells it from others.
constexpr size_t kShownOperations = 10;
constexpr size_t kShownError = 200;

StatusTable ShardRows(const ClusterStatus& status) {
  StatusTable table{
      "Shards", {"shard", "address", "health", "generation", "weight", "memory", "commands"}, {}};
  for (const ShardInfo& shard : status.shards) {
    table.rows.push_back({absl::StrCat(shard.shard.value()), EscapeForLog(shard.address, 80),
                          ShardHealthName(shard.health), absl::StrCat(shard.generation),
                          absl::StrFormat("%g", shard.capacity_weight),
                          PageBytes(static_cast<double>(shard.memory_bytes)),
                          PageCount(static_cast<double>(shard.applied_commands))});
  }
  return table;
}

double SecondsLeft(const JobStatus& job) {
  const auto left = job.time_left();
  return left.has_value() ? absl::ToDoubleSeconds(*left) : std::nan("");
}

// Loss and P@1 over the epochs: of the jobs that train, or of all when none does.
std::vector<LineChart> JobCharts(const ClusterStatus& status) {
  constexpr size_t kMaxCharts = 12;
  std::vector<LineChart> charts;
  const auto add = [&](const JobStatus& job, const char* what,
                       std::optional<double> EpochResult::*field) {
    LineChart chart{.title = absl::StrCat("job ", job.job, ", ", what), .x_name = "epoch"};
    for (const EpochResult& result : job.epochs) {
      const std::optional<double>& value = result.*field;
      if (value.has_value()) chart.points.emplace_back(result.epoch + 1, *value);
    }
    if (!chart.points.empty() && charts.size() < kMaxCharts) charts.push_back(std::move(chart));
  };
  const bool all = std::all_of(status.jobs.begin(), status.jobs.end(),
                               [](const JobStatus& job) { return job.finished; });
  for (const JobStatus& job : status.jobs) {
    if (job.finished && !all) continue;
    add(job, "loss", &EpochResult::loss);
    add(job, "P@1", &EpochResult::metric);
  }
  return charts;
}

StatusTable JobRows(const ClusterStatus& status) {
  StatusTable table{"Jobs",
                    {"job", "model", "state", "samples", "trainers", "samples/s", "time left",
                     "loss", "best P@1"},
                    {}};
  for (const JobStatus& job : status.jobs) {
    table.rows.push_back({job.job, job.model, job.state(),
                          absl::StrCat(PageCount(static_cast<double>(job.samples_done)), " of ",
                                       PageCount(static_cast<double>(job.samples_per_epoch))),
                          absl::StrCat(job.trainers),
                          job.samples_per_second > 0 ? PageCount(job.samples_per_second) : "-",
                          job.finished ? "-" : PageSeconds(SecondsLeft(job)),
                          job.loss.has_value() ? absl::StrFormat("%.4f", *job.loss) : "-",
                          job.best_epoch < 0 ? "none yet"
                                             : absl::StrFormat("%.4f, epoch %d", job.best_metric,
                                                               job.best_epoch + 1)});
  }
  return table;
}

std::string StateOf(const OperationView& operation) {
  if (operation.status.done) {
    return operation.error.ok() ? "ended well"
                                : EscapeForLog(operation.error.ToString(), kShownError);
  }
  const OperationStatus& progress = operation.status;
  if (progress.shards == 0) return progress.stage;
  return absl::StrCat(progress.stage, ": ", progress.shards_done, " of ", progress.shards,
                      " shards");
}

StatusTable OperationRows(const std::vector<OperationView>& operations) {
  StatusTable table{"Operations", {"operation", "target", "state", "time"}, {}};
  for (const OperationView& operation : operations) {
    if (table.rows.size() == kShownOperations) break;
    table.rows.push_back(
        {operation.status.kind, operation.status.target, StateOf(operation),
         absl::FormatDuration(absl::Floor(operation.status.elapsed, absl::Seconds(1)))});
  }
  return table;
}

}  // namespace

StatusPage MakeStatusPage(const ClusterStatus& status,
                          const std::vector<OperationView>& operations) {
  StatusPage page;
  page.facts = {{"Shards", absl::StrCat(status.shards.size(), " of ", status.expected_shards)},
                {"Topology version", absl::StrCat(status.topology_version)},
                {"Models", status.models.empty() ? "none" : absl::StrJoin(status.models, ", ")}};
  page.tables.push_back(ShardRows(status));
  page.tables.push_back(JobRows(status));
  page.tables.push_back(OperationRows(operations));
  page.charts = JobCharts(status);
  return page;
}

}  // namespace dslide::coordinator

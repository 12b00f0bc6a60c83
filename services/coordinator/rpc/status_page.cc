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
#include "core/partition/slot_map.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

// The newest, and of an error what tells it from others.
constexpr size_t kShownOperations = 10;
constexpr size_t kShownError = 200;

// Rows of the models' tables that each shard owns; a table of records has rows as they come, and
// does not count. Empty before all shards are there.
std::vector<int64_t> OwnedRows(const ClusterStatus& status, const std::vector<ModelSpec>& models) {
  if (static_cast<int64_t>(status.shards.size()) < status.expected_shards) return {};
  std::vector<int64_t> rows(status.shards.size());
  for (const ModelSpec& model : models) {
    for (const TableSpec& table : model.tables) {
      if (IsRecordRole(table.role)) continue;
      const auto slots = SlotMap::Deal(table.num_slots, CapacityWeights(status.shards));
      if (!slots.ok()) return {};
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] += ShardRows(*slots, status.shards[i].shard, table.rows).num_rows();
      }
    }
  }
  return rows;
}

StatusTable ShardTable(const ClusterStatus& status, const std::vector<ModelSpec>& models) {
  StatusTable table{"Shards",
                    {"shard", "address", "health", "rows", "memory", "commands/s", "commands",
                     "generation", "weight"},
                    {}};
  const std::vector<int64_t> rows = OwnedRows(status, models);
  for (const ShardInfo& shard : status.shards) {
    const size_t i = table.rows.size();
    const bool alive = shard.health == ShardHealth::kAlive;
    table.rows.push_back({absl::StrCat(shard.shard.value()), EscapeForLog(shard.address, 80),
                          ShardHealthName(shard.health),
                          i < rows.size() ? PageCount(static_cast<double>(rows[i])) : "-",
                          PageBytes(static_cast<double>(shard.memory_bytes)),
                          alive ? PageCount(shard.commands_per_second) : "-",
                          PageCount(static_cast<double>(shard.applied_commands)),
                          absl::StrCat(shard.generation),
                          absl::StrFormat("%g", shard.capacity_weight)});
  }
  return table;
}

StatusTable ModelRows(const std::vector<ModelSpec>& models) {
  StatusTable table{"Models", {"model", "labels", "tables", "rows"}, {}};
  for (const ModelSpec& model : models) {
    int64_t rows = 0;
    for (const TableSpec& part : model.tables) rows += IsRecordRole(part.role) ? 0 : part.rows;
    table.rows.push_back({model.name, PageCount(static_cast<double>(model.num_labels())),
                          absl::StrCat(model.tables.size()), PageCount(static_cast<double>(rows))});
  }
  return table;
}

double SecondsLeft(const JobStatus& job) {
  const auto left = job.time_left();
  return left.has_value() ? absl::ToDoubleSeconds(*left) : std::nan("");
}

// Curves over the epochs: of the jobs that train, or of all when none does.
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
    add(job, "samples/s", &EpochResult::samples_per_second);
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

StatusPage MakeStatusPage(const ClusterStatus& status, const std::vector<ModelSpec>& models,
                          const std::vector<OperationView>& operations) {
  StatusPage page;
  page.facts = {{"Shards", absl::StrCat(status.shards.size(), " of ", status.expected_shards)},
                {"Topology version", absl::StrCat(status.topology_version)},
                {"Models", status.models.empty() ? "none" : absl::StrJoin(status.models, ", ")}};
  page.tables.push_back(ShardTable(status, models));
  page.tables.push_back(ModelRows(models));
  page.tables.push_back(JobRows(status));
  page.tables.push_back(OperationRows(operations));
  page.charts = JobCharts(status);
  return page;
}

}  // namespace dslide::coordinator

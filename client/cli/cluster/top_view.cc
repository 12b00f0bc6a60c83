#include "client/cli/cluster/top_view.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/console/terminal.h"

namespace dslide::cli {
namespace {

// Growth of a counter; what a process that was started anew has counted is all new.
double Growth(double before, double now) { return now >= before ? now - before : now; }

// Rates of one process between two looks at its page.
class PageRates {
 public:
  PageRates(const MetricsText& before, const MetricsText& now, double seconds)
      : before_(before), now_(now), seconds_(seconds) {}

  double Rate(const std::string& name, const MetricLabels& labels = {}) const {
    if (!now_.Has(name) || seconds_ <= 0) return -1;
    return Growth(before_.Sum(name, labels), now_.Sum(name, labels)) / seconds_;
  }
  double Value(const std::string& name) const { return now_.Has(name) ? now_.Sum(name) : -1; }
  bool Has(const std::string& name) const { return now_.Has(name); }
  double P99(const std::string& name) const {
    const double seconds = now_.Quantile(name, 0.99);
    return std::isnan(seconds) ? -1 : seconds;
  }

 private:
  const MetricsText& before_;
  const MetricsText& now_;
  const double seconds_;
};

TopRow RowOfPage(const std::string& address, const PageRates& page) {
  TopRow row;
  row.address = address;
  row.cpu_share = page.Rate("process_cpu_seconds_total");
  row.memory_bytes = page.Value("process_resident_memory_bytes");
  if (page.Has("dslide_shard_head_samples_total")) {
    row.process = "shard";
    row.samples_per_second = page.Rate("dslide_shard_head_samples_total");
    row.received_bytes_per_second =
        page.Rate("dslide_shard_bytes_total", {{"direction", "received"}});
    row.sent_bytes_per_second = page.Rate("dslide_shard_bytes_total", {{"direction", "sent"}});
    row.commands_per_second = page.Rate("dslide_shard_apply_seconds_count");
    row.queue_commands = page.Value("dslide_shard_queue_commands");
    row.queue_p99_seconds = page.P99("dslide_shard_queue_seconds");
    row.memory_bytes = page.Value("dslide_shard_table_bytes");
  } else if (page.Has("dslide_trainer_samples_total")) {
    row.process = "trainer";
    row.samples_per_second = page.Rate("dslide_trainer_samples_total");
    row.received_bytes_per_second = page.Rate("dslide_trainer_received_bytes_total");
    row.sent_bytes_per_second = page.Rate("dslide_trainer_sent_bytes_total");
  } else if (page.Has("dslide_coordinator_models")) {
    row.process = "coordinator";
    row.received_bytes_per_second =
        page.Rate("dslide_coordinator_bytes_total", {{"direction", "received"}});
    row.sent_bytes_per_second =
        page.Rate("dslide_coordinator_bytes_total", {{"direction", "sent"}});
  } else {
    row.process = "unknown";
  }
  return row;
}

const ShardInfo* FindShard(const absl::StatusOr<ClusterStatus>& status, ShardId shard) {
  if (!status.ok()) return nullptr;
  for (const ShardInfo& entry : status->shards) {
    if (entry.shard == shard) return &entry;
  }
  return nullptr;
}

const ShardInfo* ShardWithPage(const absl::StatusOr<ClusterStatus>& status,
                               const std::string& page) {
  if (!status.ok()) return nullptr;
  for (const ShardInfo& entry : status->shards) {
    if (entry.admin_address == page) return &entry;
  }
  return nullptr;
}

// Null: the page was not there, or did not answer.
const MetricsText* FiguresOf(const TopSample& sample, const std::string& address) {
  for (const AdminPage& page : sample.pages) {
    if (page.address == address && page.figures.ok()) return &*page.figures;
  }
  return nullptr;
}

double Seconds(const TopSample& before, const TopSample& now) {
  return absl::ToDoubleSeconds(now.when - before.when);
}

double SamplesPerSecond(const TopSample& before, const JobStatus& job, double seconds) {
  if (!before.status.ok() || seconds <= 0) return -1;
  const auto trained = [](const JobStatus& progress) {
    return static_cast<double>(progress.epoch * progress.samples_per_epoch + progress.samples_done);
  };
  for (const JobStatus& earlier : before.status->jobs) {
    if (earlier.job == job.job) return Growth(trained(earlier), trained(job)) / seconds;
  }
  return -1;
}

std::string Count(double value) {
  return value < 0 ? "-" : WithThousands(static_cast<int64_t>(std::llround(value)));
}

std::string Bytes(double value) { return value < 0 ? "-" : ReadableBytes(value); }

int64_t Alive(const ClusterStatus& status) {
  return std::count_if(status.shards.begin(), status.shards.end(),
                       [](const ShardInfo& shard) { return shard.health == ShardHealth::kAlive; });
}

nlohmann::ordered_json Known(double value) {
  if (value < 0 || !std::isfinite(value)) return nullptr;
  return value;
}

}  // namespace

std::vector<TopRow> MakeTopRows(const TopSample& before, const TopSample& now) {
  const double seconds = Seconds(before, now);
  std::vector<TopRow> rows;
  bool shard_pages = false;
  absl::flat_hash_set<absl::string_view> answered;
  for (const AdminPage& page : now.pages) {
    if (!page.figures.ok()) {
      rows.push_back({.process = "no answer", .address = page.address});
      continue;
    }
    const MetricsText* const earlier = FiguresOf(before, page.address);
    const MetricsText nothing;
    rows.push_back(
        RowOfPage(page.address, PageRates(earlier != nullptr ? *earlier : nothing, *page.figures,
                                          earlier != nullptr ? seconds : 0)));
    answered.insert(page.address);
    if (const ShardInfo* const shard = ShardWithPage(now.status, page.address)) {
      rows.back().process = absl::StrCat("shard ", shard->shard.value());
    }
    shard_pages = shard_pages || absl::StartsWith(rows.back().process, "shard");
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const TopRow& a, const TopRow& b) { return a.process < b.process; });
  if (!now.status.ok()) return rows;
  for (const ShardInfo& shard : now.status->shards) {
    // Whose page it is cannot be told when the shard does not say.
    const bool shown =
        shard.admin_address.empty() ? shard_pages : answered.contains(shard.admin_address);
    if (shown) continue;
    TopRow row{.process = absl::StrCat("shard ", shard.shard.value()), .address = shard.address};
    row.memory_bytes = static_cast<double>(shard.memory_bytes);
    const ShardInfo* const earlier = FindShard(before.status, shard.shard);
    if (earlier != nullptr && seconds > 0) {
      row.commands_per_second = Growth(static_cast<double>(earlier->applied_commands),
                                       static_cast<double>(shard.applied_commands)) /
                                seconds;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string TopText(const TopSample& before, const TopSample& now, const std::string& cluster) {
  const double seconds = Seconds(before, now);
  std::string text;
  if (now.status.ok()) {
    text =
        absl::StrFormat("Cluster at %s: %d of %d shards alive, %d models", cluster,
                        Alive(*now.status), now.status->expected_shards, now.status->models.size());
    std::vector<std::vector<std::string>> jobs;
    for (const JobStatus& job : now.status->jobs) {
      jobs.push_back(
          {job.job, job.state(),
           absl::StrCat(WithThousands(job.samples_done), "/", WithThousands(job.samples_per_epoch)),
           Count(SamplesPerSecond(before, job, seconds)), absl::StrCat(job.trainers)});
    }
    if (!jobs.empty()) {
      absl::StrAppend(&text, "\n\n",
                      FormatTable({"job", "state", "samples", "samples/s", "trainers"}, jobs));
    }
  } else {
    text = absl::StrCat("Cluster at ", cluster, ": ", now.status.status().message());
  }
  std::vector<std::vector<std::string>> table;
  for (const TopRow& row : MakeTopRows(before, now)) {
    table.push_back(
        {row.process, row.address, Count(row.samples_per_second),
         Bytes(row.received_bytes_per_second), Bytes(row.sent_bytes_per_second),
         Count(row.commands_per_second), Count(row.queue_commands),
         row.queue_p99_seconds < 0 ? "-" : absl::StrFormat("%.1f ms", 1e3 * row.queue_p99_seconds),
         Bytes(row.memory_bytes),
         row.cpu_share < 0 ? "-" : absl::StrFormat("%.0f %%", 100 * row.cpu_share)});
  }
  absl::StrAppend(&text, "\n\n",
                  FormatTable({"process", "address", "samples/s", "received/s", "sent/s",
                               "commands/s", "queue", "wait p99", "memory", "cpu"},
                              table));
  if (now.pages.empty()) {
    absl::StrAppend(&text,
                    "\n\nBytes, queues and trainers: name the admin pages with --admin "
                    "HOST:PORT,...; shards serve theirs to this machine only.");
  }
  return text;
}

std::string TopJson(const TopSample& before, const TopSample& now) {
  nlohmann::ordered_json json;
  const double seconds = Seconds(before, now);
  json["seconds"] = seconds;
  json["shards_alive"] = nullptr;
  json["expected_shards"] = nullptr;
  json["jobs"] = nlohmann::ordered_json::array();
  if (now.status.ok()) {
    json["shards_alive"] = Alive(*now.status);
    json["expected_shards"] = now.status->expected_shards;
    for (const JobStatus& job : now.status->jobs) {
      json["jobs"].push_back({{"job", job.job},
                              {"finished", job.finished},
                              {"epoch", job.epoch},
                              {"samples_done", job.samples_done},
                              {"samples_per_second", Known(SamplesPerSecond(before, job, seconds))},
                              {"trainers", job.trainers}});
    }
  }
  json["processes"] = nlohmann::ordered_json::array();
  for (const TopRow& row : MakeTopRows(before, now)) {
    json["processes"].push_back(
        {{"process", row.process},
         {"address", row.address},
         {"samples_per_second", Known(row.samples_per_second)},
         {"received_bytes_per_second", Known(row.received_bytes_per_second)},
         {"sent_bytes_per_second", Known(row.sent_bytes_per_second)},
         {"commands_per_second", Known(row.commands_per_second)},
         {"queue_commands", Known(row.queue_commands)},
         {"queue_p99_seconds", Known(row.queue_p99_seconds)},
         {"memory_bytes", Known(row.memory_bytes)},
         {"cpu_share", Known(row.cpu_share)}});
  }
  return json.dump();
}

}  // namespace dslide::cli

#include "services/shard/metrics/shard_page.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/system/stage_times.h"

namespace dslide::shard {
namespace {

// Budgets beyond it are no limit.
constexpr double kNoBudget = 1e18;

std::string Mean(const MetricsText& figures, const std::string& name) {
  return PageSeconds(figures.Sum(name + "_sum") / figures.Sum(name + "_count"));
}

void AddCommunication(const MetricsText& figures, StatusPage& page) {
  const double moved = figures.Sum("dslide_shard_bytes_total");
  const double steps = figures.Sum("dslide_shard_bytes_total", {{"method", "Step"}});
  const double dense = figures.Sum("dslide_shard_dense_equivalent_bytes_total");
  page.facts.push_back({"Bytes moved", PageBytes(moved)});
  if (dense > 0) {
    page.facts.push_back(
        {"Bytes saved", absl::StrCat(PageBytes(dense - steps), ", ", PagePercent(1 - steps / dense),
                                     " of what a dense all-reduce would have moved")});
  }
  StatusTable table{"Traffic", {"table", "operation", "received", "sent", "messages"}, {}};
  std::map<std::pair<std::string, std::string>, bool> seen;
  for (const MetricSample& sample : figures.Series("dslide_shard_table_traffic_bytes_total")) {
    const std::string name = sample.labels.at("table");
    const std::string operation = sample.labels.at("operation");
    if (!seen.try_emplace({name, operation}, true).second) continue;
    const auto sum = [&](const char* metric, const char* direction) {
      return figures.Sum(metric,
                         {{"table", name}, {"operation", operation}, {"direction", direction}});
    };
    constexpr char kBytes[] = "dslide_shard_table_traffic_bytes_total";
    table.rows.push_back({name, operation, PageBytes(sum(kBytes, "received")),
                          PageBytes(sum(kBytes, "sent")),
                          PageCount(sum("dslide_shard_table_messages_total", "received"))});
  }
  page.tables.push_back(std::move(table));
}

void AddTables(const MetricsText& figures, StatusPage& page) {
  StatusTable tables{"Tables", {"table", "rows", "slots", "bucket rows", "bucket skew"}, {}};
  for (const MetricSample& sample : figures.Series("dslide_shard_rows")) {
    const MetricLabels of = {{"table", sample.labels.at("table")}};
    const bool hashed = figures.Sum("dslide_shard_bucket_rows", of) > 0;
    const auto ratio = [&](const char* name) {
      return hashed ? absl::StrFormat("%.2f", figures.Sum(name, of)) : std::string("-");
    };
    tables.rows.push_back({sample.labels.at("table"), PageCount(sample.value),
                           PageCount(figures.Sum("dslide_shard_slots", of)),
                           ratio("dslide_shard_bucket_rows"),
                           ratio("dslide_shard_bucket_skew_ratio")});
  }
  page.tables.push_back(std::move(tables));

  StatusTable memory{"Memory", {"kind", "bytes"}, {}};
  for (const MetricSample& sample : figures.Series("dslide_shard_memory_bytes")) {
    memory.rows.push_back({sample.labels.at("kind"), PageBytes(sample.value)});
  }
  page.tables.push_back(std::move(memory));
}

void AddStages(const MetricsText& figures, StatusPage& page) {
  StatusTable stages{"Stages", {"stage", "times", "mean", "total"}, {}};
  const auto add = [&](const std::string& label, const std::string& name,
                       const MetricLabels& labels) {
    const double count = figures.Sum(name + "_count", labels);
    if (count == 0) return;
    const double seconds = figures.Sum(name + "_sum", labels);
    stages.rows.push_back(
        {label, PageCount(count), PageSeconds(seconds / count), PageSeconds(seconds)});
  };
  add("decode", "dslide_shard_decode_seconds", {});
  add("queue", "dslide_shard_queue_seconds", {});
  add("log append", "dslide_shard_log_append_seconds", {});
  for (int64_t i = 0; i < kNumStages; ++i) {
    const std::string stage(StageName(static_cast<Stage>(i)));
    add(stage, "dslide_shard_stage_seconds", {{"stage", stage}});
  }
  add("encode", "dslide_shard_encode_seconds", {});
  add("log sync", "dslide_shard_log_sync_seconds", {});
  page.tables.push_back(std::move(stages));
}

void AddLog(const MetricsText& figures, StatusPage& page) {
  if (!figures.Has("dslide_shard_log_newest_lsn")) return;
  page.facts.push_back(
      {"Command log",
       absl::StrCat(PageBytes(figures.Sum("dslide_shard_log_bytes")), ", newest record ",
                    PageCount(figures.Sum("dslide_shard_log_newest_lsn")), ", durable up to ",
                    PageCount(figures.Sum("dslide_shard_log_durable_lsn")), ", a sync takes ",
                    Mean(figures, "dslide_shard_log_sync_seconds"))});
  page.facts.push_back(
      {"Newest image",
       absl::StrCat(PageSeconds(figures.Sum("dslide_shard_image_age_seconds")), " old, ",
                    PageBytes(figures.Sum("dslide_shard_image_bytes")), " on the disk")});
}

}  // namespace

void AddShardFigures(const MetricsText& figures, StatusPage& page) {
  const double samples = figures.Sum("dslide_shard_head_samples_total");
  page.facts.push_back({"Samples", PageCount(samples)});
  if (samples > 0) {
    page.facts.push_back({"Active rows per sample",
                          PageCount(figures.Sum("dslide_shard_active_rows_total") / samples)});
  }
  const double wanted = figures.Sum("dslide_shard_recall_wanted_total", {{"top", "10"}});
  if (wanted > 0) {
    const double found = figures.Sum("dslide_shard_recall_found_total", {{"top", "10"}});
    page.facts.push_back({"Hash recall, top 10", PagePercent(found / wanted)});
  }
  const double budget = figures.Sum("dslide_shard_memory_budget_bytes");
  page.facts.push_back(
      {"Memory of tables",
       absl::StrCat(PageBytes(figures.Sum("dslide_shard_table_bytes")),
                    budget > kNoBudget ? "" : absl::StrCat(" of ", PageBytes(budget)))});
  page.facts.push_back({"Waiting commands", PageCount(figures.Sum("dslide_shard_queue_commands"))});
  page.facts.push_back(
      {"Refused requests", PageCount(figures.Sum("dslide_shard_refused_requests_total"))});
  AddLog(figures, page);
  AddTables(figures, page);
  AddCommunication(figures, page);
  AddStages(figures, page);
}

}  // namespace dslide::shard

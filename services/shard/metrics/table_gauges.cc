#include "services/shard/metrics/table_gauges.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/engine/rows/table_bytes.h"

namespace dslide::shard {
namespace {

// Enough for a trend; 64 rows in 50 tables are a third of a millisecond, once in 256 commands.
constexpr int64_t kSampledRows = 64;

int64_t SlotsOf(const ShardModel& model, const TableSpec& spec) {
  for (const SlotMap& map : model.slot_maps()) {
    if (map.num_slots() != spec.num_slots) continue;
    return std::count(map.owners().begin(), map.owners().end(), model.shard());
  }
  return 0;
}

}  // namespace

TableGauges::TableGauges(Metrics& metrics, TableLabels& labels)
    : metrics_(metrics), labels_(labels) {}

void TableGauges::Publish(const ShardCore& core) {
  std::map<std::string, Table> tables;
  for (const auto& [label, gone] : published_) tables[label].hashed = gone.hashed;
  for (const auto& [name, model] : core.models()) {
    for (const ShardTable& shard_table : std::as_const(*model).tables()) {
      Table& table = tables[labels_.LabelOf(shard_table.spec.name)];
      table.rows += static_cast<double>(shard_table.stored().present());
      table.slots += static_cast<double>(SlotsOf(*model, shard_table.spec));
      const HashIndex* const index =
          shard_table.head == nullptr ? nullptr : shard_table.head->index();
      if (index == nullptr) continue;
      table.hashed = true;
      const BucketLoad load = index->MeasureBuckets(kSampledRows);
      table.bucket_rows = std::max(table.bucket_rows, load.rows_per_bucket);
      table.bucket_skew = std::max(table.bucket_skew, load.skew);
    }
  }
  for (const auto& [label, table] : tables) PublishTable(label, table);
  published_ = std::move(tables);
  PublishMemory(core);
}

void TableGauges::PublishTable(const std::string& label, const Table& table) {
  const MetricLabels labels = {{"table", label}};
  metrics_
      .AddGauge("dslide_shard_rows",
                "Rows of a table on this shard; of a table of records those that are present.",
                labels)
      .Set(table.rows);
  metrics_.AddGauge("dslide_shard_slots", "Slots of a table that this shard owns.", labels)
      .Set(table.slots);
  if (!table.hashed) return;
  metrics_
      .AddGauge("dslide_shard_bucket_rows",
                "Rows in the bucket in which a row lies: mean of sampled rows over all hash "
                "tables.",
                labels)
      .Set(table.bucket_rows);
  metrics_
      .AddGauge("dslide_shard_bucket_skew_ratio",
                "dslide_shard_bucket_rows over what random fingerprints would give; 1 is even.",
                labels)
      .Set(table.bucket_skew);
}

void TableGauges::PublishMemory(const ShardCore& core) {
  TableBytes sum;
  int64_t records = 0;
  for (const auto& [name, model] : core.models()) {
    for (const ShardTable& table : std::as_const(*model).tables()) {
      const TableBytes bytes = TableBytesFor(table.spec, table.stored().rows().num_rows());
      if (table.records != nullptr) records += table.records->stored_bytes();
      sum.weights += bytes.weights;
      sum.state += bytes.state;
      sum.overhead += bytes.overhead + bytes.dirty;
      sum.hash_tables += bytes.hash_tables;
      sum.hash_codes += bytes.hash_codes;
    }
  }
  const std::vector<std::pair<const char*, int64_t>> kinds = {
      {"weights", sum.weights},
      {"optimizer_state", sum.state},
      {"row_overhead", sum.overhead},
      {"records", records},
      {"hash_tables", sum.hash_tables},
      {"hash_codes", sum.hash_codes},
      {"kept_replies", core.clients().reply_bytes()},
      {"step_contexts", core.contexts().bytes()}};
  for (const auto& [kind, bytes] : kinds) {
    metrics_
        .AddGauge("dslide_shard_memory_bytes",
                  "Memory by what it is used for. row_overhead: biases, last steps, rounding up; "
                  "pointers to records.",
                  {{"kind", kind}})
        .Set(static_cast<double>(bytes));
  }
  metrics_
      .AddGauge("dslide_shard_memory_budget_bytes",
                "Memory that rows and hash tables together may take.")
      .Set(static_cast<double>(core.limits().memory_bytes));
}

}  // namespace dslide::shard

// What a shard holds, table by table: rows, slots, memory by kind, evenness of the hash tables.

#pragma once

#include <map>
#include <string>

#include "core/net/metrics/metrics.h"
#include "services/shard/metrics/table_labels.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

// Tables of one name in several models are added up. Not thread-safe: the thread that applies
// commands.
class TableGauges {
 public:
  // Both outlive it.
  TableGauges(Metrics& metrics, TableLabels& labels);

  // Looks at every table; its cost does not grow with the rows.
  void Publish(const ShardCore& core);

 private:
  struct Table {
    double rows = 0, slots = 0;
    double bucket_rows = 0, bucket_skew = 0;  // of the worst table of that name
    bool hashed = false;
  };
  void PublishTable(const std::string& label, const Table& table);
  void PublishMemory(const ShardCore& core);

  Metrics& metrics_;
  TableLabels& labels_;
  std::map<std::string, Table> published_;  // by label: those that go are set to 0
};

}  // namespace dslide::shard

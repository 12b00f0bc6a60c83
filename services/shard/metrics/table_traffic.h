// Bytes and messages of the requests that were served, by table, operation and direction.
//
// A request counts when it was answered without an error: names of tables that clients make up give
// no series. Sizes are those of the protobuf messages, without framing.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/net/metrics/metrics.h"
#include "core/protocol/commands.h"
#include "services/shard/metrics/table_labels.h"

namespace dslide::shard {

// What touches one table; `operation` points to a name that lives forever, "" for none.
struct TableOperation {
  std::string table;
  absl::string_view operation;
};

// Of a command that works on one table; the rest has no operation.
TableOperation OperationOf(const Command& command);

// What one request moved.
struct Traffic {
  int64_t received_messages = 0, received_bytes = 0;
  int64_t sent_messages = 0, sent_bytes = 0;
};

// Thread safety: safe from any thread.
class TableTraffic {
 public:
  // Both outlive it.
  TableTraffic(Metrics& metrics, TableLabels& labels);

  void Record(const TableOperation& what, const Traffic& traffic);

 private:
  struct Series {
    Counter received_messages, received_bytes, sent_messages, sent_bytes;
  };
  Series SeriesOf(const TableOperation& what);

  Metrics& metrics_;
  TableLabels& labels_;
  absl::Mutex mu_;
  std::map<std::pair<std::string, absl::string_view>, Series> series_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::shard

// What a shard tells the world about its work.

#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"
#include "core/protocol/commands.h"
#include "core/system/stage_times.h"
#include "services/shard/metrics/table_gauges.h"
#include "services/shard/metrics/table_labels.h"
#include "services/shard/metrics/table_traffic.h"
#include "services/shard/state/shard_core.h"
#include "services/shard/state/staleness_meter.h"

namespace dslide::shard {

// Index of a command in CommandNames(): step operations are told apart.
size_t CommandKind(const Command& command);
const std::vector<std::string>& CommandNames();

// Thread safety: safe from any thread, unless a line says otherwise.
class ShardMetrics {
 public:
  // Both outlive it.
  ShardMetrics(Metrics& metrics, const StageTimes& stages);

  void RecordDecode(absl::Duration duration) const;
  void RecordEncode(absl::Duration duration) const;
  void RecordQueue(absl::Duration duration) const;
  void RecordApply(size_t kind, absl::Duration duration) const;
  void SetQueue(int64_t commands, int64_t bytes) const;

  // Counts an answer: refusals by reason, repetitions, active and distinct rows, staleness. `mark`
  // is that of the command. Only from the thread that applies commands.
  void RecordAnswer(const Answer& answer, const std::optional<StepMark>& mark);
  // A request that was served: what it moved, and of which table.
  void RecordTraffic(const TableOperation& what, const Traffic& traffic) {
    traffic_.Record(what, traffic);
  }
  // A request that was refused before it became a command.
  void RecordRefusal(const absl::Status& status);
  // A client whose acknowledged updates are not here; `lost` of them.
  void RecordAckedLoss(uint64_t lost) const;
  // A record handed to the command log; one sync of it.
  void RecordLogAppend(absl::Duration duration) const;
  void RecordLogSync(absl::Duration duration) const;
  // An image of the whole state was written.
  void RecordImage(absl::Duration duration) const;
  // The coordinator has answered a heartbeat after so long.
  void RecordHeartbeat(absl::Duration round_trip) const;
  void RecordCheckpoint(absl::string_view operation, absl::Duration duration, int64_t bytes);

  // Takes over the core's own counters. Only from the thread that applies commands.
  void Publish(const ShardCore& core);
  // Also the values that cost a pass over models and tables. Same thread.
  void PublishSizes(const ShardCore& core);

 private:
  void AddMirrors();
  Counter RefusalCounter(const std::string& word);

  Metrics& metrics_;
  TableLabels labels_;
  TableTraffic traffic_;
  TableGauges tables_;        // of the applying thread
  StalenessMeter staleness_;  // of the applying thread
  Histogram decode_, encode_, queue_, log_append_, log_sync_, image_, heartbeat_, stale_steps_;
  std::vector<Histogram> apply_;  // by CommandKind
  Gauge queue_commands_, queue_bytes_;
  Histogram active_rows_, distinct_rows_;
  Counter repeated_, acked_loss_, quarantined_;
  int64_t quarantined_published_ = 0;  // of the applying thread
  // The core's counters, and how much of them was published.
  struct Mirror {
    int64_t ModelCounters::*field;
    Counter counter;
    int64_t published = 0;
  };
  std::vector<Mirror> mirrors_;  // of the applying thread
  const StageTimes& stages_;
  struct StageMirror {
    Histogram seconds;
    absl::Duration published;
  };
  std::array<StageMirror, kNumStages> stage_mirrors_;  // of the applying thread
  Gauge models_, memory_bytes_, clients_, reply_bytes_, contexts_, context_bytes_;
  absl::Mutex mu_;
  std::map<std::string, Counter> refusals_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::shard

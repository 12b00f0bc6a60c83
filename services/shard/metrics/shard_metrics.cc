#include "services/shard/metrics/shard_metrics.h"

#include <utility>
#include <variant>

#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"

namespace dslide::shard {
namespace {

// Words of refusals are few, but some come from libraries: no more series than this.
constexpr size_t kMaxReasons = 100;

// Seconds of what may take minutes.
std::vector<double> LongBuckets() { return {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300}; }

}  // namespace

const std::vector<std::string>& CommandNames() {
  static const auto* const names = new std::vector<std::string>{
      // Step operations, as in StepOp.
      "embed_forward", "head_forward", "head_backward", "embed_backward", "dense_gather",
      "dense_scatter", "append_points", "put_record", "get_record", "solve_rows", "find_neighbours",
      "score_rows", "load_rows",
      // Other commands, as in Command.
      "scatter", "gather", "top_k", "create_model", "drop_model", "describe_model", "hello", "bye",
      "refused", "set_ownership", "read_rows"};
  return *names;
}

size_t CommandKind(const Command& command) {
  static_assert(std::variant_size_v<StepOp> == 13 && std::variant_size_v<Command> == 13);
  if (const auto* step = std::get_if<StepCommand>(&command)) return step->op.index();
  if (const auto* read = std::get_if<ReadCommand>(&command)) return read->op.index();
  return std::variant_size_v<StepOp> + command.index() - 1;
}

ShardMetrics::ShardMetrics(Metrics& metrics, const StageTimes& stages)
    : metrics_(metrics), traffic_(metrics, labels_), tables_(metrics, labels_), stages_(stages) {
  decode_ = metrics.AddHistogram("dslide_shard_decode_seconds",
                                 "Time to decode and check a request before it is queued.");
  encode_ = metrics.AddHistogram("dslide_shard_encode_seconds", "Time to encode an answer.");
  queue_ = metrics.AddHistogram("dslide_shard_queue_seconds",
                                "Time from a command's arrival until it is applied.");
  log_append_ = metrics.AddHistogram("dslide_shard_log_append_seconds",
                                     "Time to hand a record to the command log.");
  log_sync_ = metrics.AddHistogram("dslide_shard_log_sync_seconds",
                                   "Time to make appended records of the command log durable.");
  image_ = metrics.AddHistogram(
      "dslide_shard_image_seconds",
      "Time to write an image of the whole state, beside commands unless the shard stops.", {},
      LongBuckets());
  heartbeat_ = metrics.AddHistogram("dslide_shard_heartbeat_seconds",
                                    "Round trip to the coordinator and back.");
  stale_steps_ =
      metrics.AddHistogram("dslide_shard_staleness_steps",
                           "Updates of the head between a step's forward and its backward pass.",
                           {}, {0, 1, 2, 4, 8, 16, 32, 64, 128, 256});
  for (const std::string& name : CommandNames()) {
    apply_.push_back(metrics.AddHistogram("dslide_shard_apply_seconds", "Time to apply a command.",
                                          {{"command", name}}));
  }
  queue_commands_ = metrics.AddGauge("dslide_shard_queue_commands", "Commands waiting.");
  queue_bytes_ = metrics.AddGauge("dslide_shard_queue_bytes", "Bytes of commands waiting.");
  active_rows_ = metrics.AddHistogram(
      "dslide_shard_active_rows_per_sample",
      "Rows of this shard in a sample's active set, mean of a batch.", {}, CountBuckets());
  distinct_rows_ =
      metrics.AddHistogram("dslide_shard_distinct_rows_per_batch",
                           "Rows of this shard's head loaded for a batch.", {}, CountBuckets());
  repeated_ = metrics.AddCounter("dslide_shard_repeated_mutations_total",
                                 "Mutations answered from memory because they were repeated.");
  acked_loss_ = metrics.AddCounter(
      "dslide_shard_acked_loss_total",
      "Updates that clients had answers to and that this shard does not remember.");
  quarantined_ =
      metrics.AddCounter("dslide_shard_quarantined_clients_total",
                         "Clients that are refused because too many of their requests were bad.");
  // At 0 from the start, so that an alert sees the first one.
  for (const char* word : {reason::kQueueFull, reason::kBulkFull, reason::kContextsFull,
                           reason::kOutOfMemory, reason::kDiskFull, reason::kLogFailed}) {
    refusals_[word] = RefusalCounter(word);
  }
  AddMirrors();
  models_ = metrics.AddGauge("dslide_shard_models", "Models on this shard.");
  memory_bytes_ = metrics.AddGauge("dslide_shard_table_bytes",
                                   "Memory of rows, optimizer state and hash tables.");
  clients_ = metrics.AddGauge("dslide_shard_clients", "Clients open.");
  reply_bytes_ = metrics.AddGauge("dslide_shard_kept_reply_bytes",
                                  "Bytes of answers kept for clients that may repeat a request.");
  contexts_ = metrics.AddGauge("dslide_shard_step_contexts", "Forward passes without a backward.");
  context_bytes_ =
      metrics.AddGauge("dslide_shard_step_context_bytes", "Memory of the open steps' contexts.");
}

void ShardMetrics::AddMirrors() {
  const auto mirror = [&](int64_t ModelCounters::*field, absl::string_view name,
                          absl::string_view help, const MetricLabels& labels = {}) {
    mirrors_.push_back({field, metrics_.AddCounter(name, help, labels)});
  };
  mirror(&ModelCounters::rejected_rows, "dslide_shard_rejected_rows_total",
         "Row updates not stored because the result was not finite or beyond the bound.");
  mirror(&ModelCounters::active_pairs, "dslide_shard_active_rows_total",
         "Rows in active sets, summed over samples.");
  mirror(&ModelCounters::head_samples, "dslide_shard_head_samples_total",
         "Samples of head forward operations.");
  mirror(&ModelCounters::head_distinct_rows, "dslide_shard_distinct_rows_total",
         "Distinct rows, summed over batches.", {{"table", "head"}});
  mirror(&ModelCounters::embed_distinct_rows, "dslide_shard_distinct_rows_total",
         "Distinct rows, summed over batches.", {{"table", "embedding"}});
  mirror(&ModelCounters::recall_top1_found, "dslide_shard_recall_found_total",
         "Exact best rows that hashing had found, of sampled queries.", {{"top", "1"}});
  mirror(&ModelCounters::recall_top10_found, "dslide_shard_recall_found_total",
         "Exact best rows that hashing had found, of sampled queries.", {{"top", "10"}});
  mirror(&ModelCounters::recall_top1_wanted, "dslide_shard_recall_wanted_total",
         "Exact best rows looked for, of sampled queries.", {{"top", "1"}});
  mirror(&ModelCounters::recall_top10_wanted, "dslide_shard_recall_wanted_total",
         "Exact best rows looked for, of sampled queries.", {{"top", "10"}});
  for (const char* direction : {"received", "sent"}) {
    mirror(&ModelCounters::dense_equivalent_bytes, "dslide_shard_dense_equivalent_bytes_total",
           "Bytes that a dense all-reduce of this shard's rows would have moved for the same "
           "updates: rows x (dim + bias) x 4.",
           {{"direction", direction}});
  }
  for (size_t i = 0; i < stage_mirrors_.size(); ++i) {
    stage_mirrors_[i].seconds = metrics_.AddHistogram(
        "dslide_shard_stage_seconds",
        "Time of the stages of training steps, one observation per command and stage. table_build "
        "runs beside the others.",
        {{"stage", std::string(StageName(static_cast<Stage>(i)))}});
  }
}

void ShardMetrics::RecordDecode(absl::Duration duration) const {
  decode_.Observe(absl::ToDoubleSeconds(duration));
}

void ShardMetrics::RecordLogAppend(absl::Duration duration) const {
  log_append_.Observe(absl::ToDoubleSeconds(duration));
}

void ShardMetrics::RecordLogSync(absl::Duration duration) const {
  log_sync_.Observe(absl::ToDoubleSeconds(duration));
}

void ShardMetrics::RecordEncode(absl::Duration duration) const {
  encode_.Observe(absl::ToDoubleSeconds(duration));
}

void ShardMetrics::RecordQueue(absl::Duration duration) const {
  queue_.Observe(absl::ToDoubleSeconds(duration));
}

void ShardMetrics::RecordApply(size_t kind, absl::Duration duration) const {
  apply_[kind].Observe(absl::ToDoubleSeconds(duration));
}

void ShardMetrics::SetQueue(int64_t commands, int64_t bytes) const {
  queue_commands_.Set(static_cast<double>(commands));
  queue_bytes_.Set(static_cast<double>(bytes));
}

void ShardMetrics::RecordImage(absl::Duration duration) const {
  image_.Observe(absl::ToDoubleSeconds(duration));
}

void ShardMetrics::RecordHeartbeat(absl::Duration round_trip) const {
  heartbeat_.Observe(absl::ToDoubleSeconds(round_trip));
}

void ShardMetrics::RecordAnswer(const Answer& answer, const std::optional<StepMark>& mark) {
  if (!answer.reply->status.ok()) return RecordRefusal(answer.reply->status);
  if (answer.repeated) return repeated_.Increment();
  if (mark.has_value()) {
    const std::optional<int64_t> stale = staleness_.Applied(*mark);
    if (stale.has_value()) stale_steps_.Observe(static_cast<double>(*stale));
  }
  if (const auto* head = std::get_if<HeadForwardReply>(&answer.reply->body)) {
    const auto batch = static_cast<double>(head->output.max_logits.size());
    active_rows_.Observe(static_cast<double>(head->output.active_pairs) / batch);
    distinct_rows_.Observe(static_cast<double>(head->output.distinct_rows));
  }
}

Counter ShardMetrics::RefusalCounter(const std::string& word) {
  return metrics_.AddCounter("dslide_shard_refused_requests_total",
                             "Requests answered with an error, by reason.", {{"reason", word}});
}

void ShardMetrics::RecordRefusal(const absl::Status& status) {
  std::string word = ReasonOf(status);
  if (word.empty()) word = absl::StatusCodeToString(status.code());
  Counter counter;
  {
    const absl::MutexLock lock(&mu_);
    if (refusals_.size() >= kMaxReasons && !refusals_.contains(word)) word = "OTHER";
    const auto [found, is_new] = refusals_.try_emplace(word);
    if (is_new) {
      found->second = RefusalCounter(word);
    }
    counter = found->second;
  }
  counter.Increment();
}

void ShardMetrics::RecordAckedLoss(uint64_t lost) const {
  acked_loss_.Increment(static_cast<double>(lost));
}

void ShardMetrics::RecordCheckpoint(absl::string_view operation, absl::Duration duration,
                                    int64_t bytes) {
  const MetricLabels labels = {{"operation", std::string(operation)}};
  metrics_
      .AddHistogram("dslide_shard_checkpoint_seconds", "Time to write or load a checkpoint.",
                    labels, LongBuckets())
      .Observe(absl::ToDoubleSeconds(duration));
  metrics_.AddGauge("dslide_shard_checkpoint_bytes", "Size of the last checkpoint.", labels)
      .Set(static_cast<double>(bytes));
  metrics_
      .AddGauge("dslide_shard_checkpoint_timestamp_seconds",
                "When the last checkpoint was written or loaded, Unix time.", labels)
      .Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
}

void ShardMetrics::Publish(const ShardCore& core) {
  const ModelCounters counters = core.Counters();
  for (Mirror& mirror : mirrors_) {
    const int64_t value = counters.*mirror.field;
    if (value > mirror.published) {
      mirror.counter.Increment(static_cast<double>(value - mirror.published));
    }
    mirror.published = value;
  }
  for (size_t i = 0; i < stage_mirrors_.size(); ++i) {
    const absl::Duration total = stages_.Total(static_cast<Stage>(i));
    StageMirror& mirror = stage_mirrors_[i];
    if (total > mirror.published) {
      mirror.seconds.Observe(absl::ToDoubleSeconds(total - mirror.published));
    }
    mirror.published = total;
  }
  if (core.quarantined() > quarantined_published_) {
    quarantined_.Increment(static_cast<double>(core.quarantined() - quarantined_published_));
    LogWarning("clients were quarantined: too many of their requests were bad",
               {{"clients", core.quarantined() - quarantined_published_},
                {"limit", core.limits().clients.bad_requests},
                {"among", kQuarantineBlock}});
    quarantined_published_ = core.quarantined();
  }
  clients_.Set(static_cast<double>(core.clients().open_clients()));
  reply_bytes_.Set(static_cast<double>(core.clients().reply_bytes()));
  context_bytes_.Set(static_cast<double>(core.contexts().bytes()));
}

void ShardMetrics::PublishSizes(const ShardCore& core) {
  Publish(core);
  models_.Set(static_cast<double>(core.models().size()));
  memory_bytes_.Set(static_cast<double>(core.memory_bytes()));
  contexts_.Set(static_cast<double>(core.contexts().count()));
  tables_.Publish(core);
}

}  // namespace dslide::shard

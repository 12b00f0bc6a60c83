#include "services/shard/metrics/table_traffic.h"

#include <variant>

namespace dslide::shard {
namespace {

// In the order of StepOp; CommandNames() has the same words.
constexpr absl::string_view kStepOperations[] = {
    "embed_forward",   "head_forward",  "head_backward", "embed_backward", "dense_gather",
    "dense_scatter",   "append_points", "put_record",    "get_record",     "solve_rows",
    "find_neighbours", "score_rows",    "load_rows"};
static_assert(std::size(kStepOperations) == std::variant_size_v<StepOp>);

TableOperation OperationOf(const StepOp& op) {
  return {std::visit([](const auto& any) { return any.table; }, op), kStepOperations[op.index()]};
}

}  // namespace

TableOperation OperationOf(const Command& command) {
  if (const auto* step = std::get_if<StepCommand>(&command)) return OperationOf(step->op);
  if (const auto* read = std::get_if<ReadCommand>(&command)) return OperationOf(read->op);
  if (const auto* scatter = std::get_if<ScatterCommand>(&command)) {
    return {scatter->table, "scatter"};
  }
  if (const auto* gather = std::get_if<GatherCommand>(&command)) return {gather->table, "gather"};
  if (const auto* top_k = std::get_if<TopKCommand>(&command)) return {top_k->table, "top_k"};
  if (const auto* read = std::get_if<ReadRowsCommand>(&command)) return {read->table, "read_rows"};
  return {};
}

TableTraffic::TableTraffic(Metrics& metrics, TableLabels& labels)
    : metrics_(metrics), labels_(labels) {}

TableTraffic::Series TableTraffic::SeriesOf(const TableOperation& what) {
  const absl::MutexLock lock(&mu_);
  const auto [place, is_new] =
      series_.try_emplace({labels_.LabelOf(what.table), what.operation}, Series());
  const auto& found = place;  // a structured binding cannot be captured by every compiler
  if (!is_new) return found->second;
  const auto add = [&](const char* name, const char* help, const char* direction) {
    return metrics_.AddCounter(name, help,
                               {{"table", found->first.first},
                                {"operation", std::string(what.operation)},
                                {"direction", direction}});
  };
  constexpr char kMessages[] = "dslide_shard_table_messages_total";
  constexpr char kMessagesHelp[] = "Messages of served requests, by table and operation.";
  constexpr char kBytes[] = "dslide_shard_table_traffic_bytes_total";
  constexpr char kBytesHelp[] =
      "Bytes of messages of served requests, by table and operation, without framing.";
  found->second = {.received_messages = add(kMessages, kMessagesHelp, "received"),
                   .received_bytes = add(kBytes, kBytesHelp, "received"),
                   .sent_messages = add(kMessages, kMessagesHelp, "sent"),
                   .sent_bytes = add(kBytes, kBytesHelp, "sent")};
  return found->second;
}

void TableTraffic::Record(const TableOperation& what, const Traffic& traffic) {
  if (what.operation.empty()) return;
  const Series series = SeriesOf(what);
  series.received_messages.Increment(static_cast<double>(traffic.received_messages));
  series.received_bytes.Increment(static_cast<double>(traffic.received_bytes));
  series.sent_messages.Increment(static_cast<double>(traffic.sent_messages));
  series.sent_bytes.Increment(static_cast<double>(traffic.sent_bytes));
}

}  // namespace dslide::shard

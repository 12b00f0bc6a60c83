#include "tests/golden/shard_text.h"

#include <cstring>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/bfloat16.h"
#include "core/base/reason.h"
#include "services/shard/storage/hash_image.h"

namespace dslide::golden {
namespace {

using shard::ShardCore;
using shard::ShardModel;
using shard::ShardTable;

std::string Word(float value) { return absl::StrFormat("%a", value); }
template <typename Integer>
std::string Word(Integer value) {
  return absl::StrCat(+value);
}
template <typename Tag, typename Rep>
std::string Word(StrongInt<Tag, Rep> id) {
  return absl::StrCat(+id.value());
}

// " name: 1 2 3"
template <typename T>
std::string List(absl::string_view name, const std::vector<T>& values) {
  std::string text = absl::StrCat(" ", name, ":");
  for (const T& value : values) absl::StrAppend(&text, " ", Word(value));
  return text;
}

std::string Name(const ClientId& id) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(id.data()), id.size()});
}

// `count` numbers at `at` in a record.
std::vector<float> Numbers(absl::Span<const char> record, int64_t at, int64_t count,
                           bool is_short) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) {
    float value = 0;
    if (is_short) {
      BFloat16 stored;
      std::memcpy(&stored, record.data() + at + 2 * i, sizeof(stored));
      value = ToFloat(stored);
    } else {
      std::memcpy(&value, record.data() + at + 4 * i, sizeof(value));
    }
    numbers.push_back(value);
  }
  return numbers;
}

std::string RowText(const RowStore& store, LocalRow row) {
  const RowLayout& layout = store.layout();
  const absl::Span<const char> record = store.RecordSpan(row);
  if (record.empty()) return "";
  std::string text = absl::StrCat("  row ", Word(store.rows().ToGlobal(row)));
  text += List("weights", Numbers(record, 0, layout.dim, layout.bf16_weights()));
  for (int64_t i = 0; i < layout.state.vectors; ++i) {
    const int64_t at = layout.weight_bytes + i * layout.vector_bytes;
    text += List("state", Numbers(record, at, layout.dim, layout.bf16_state()));
  }
  text += List("tail", Numbers(record, layout.tail_offset, layout.tail_floats - 1, false));
  return absl::StrCat(text, " last step ", store.LastStep(row).value(), "\n");
}

// The rows that hash tables give for a fingerprint, the same one in all tables.
std::string ActiveText(const ShardModel& model, const ShardTable& table) {
  std::string text;
  const HashSpec hash = ResolvedHead(table.spec).hash;
  for (uint32_t print = 0; print < (1u << FingerprintBits(hash)); ++print) {
    GatherCommand command;
    command.model = model.spec().name;
    command.table = table.spec.name;
    command.by_fingerprint = true;
    command.batch = 1;
    command.fingerprints.assign(static_cast<size_t>(hash.num_tables), print);
    const auto rows = model.Gather(command);
    absl::StrAppend(&text, "  fingerprint ", print,
                    rows.ok() ? List("active", rows->sample_rows) : rows.status().ToString(), "\n");
  }
  return text;
}

std::string HashText(const ShardModel& model) {
  std::string text;
  const shard::ModelHashes hashes = shard::HashesOf(model);
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (!hashes[i].has_value()) continue;
    absl::StrAppend(&text, "  hashes of ", model.tables()[i].spec.name, " bound ",
                    Word(hashes[i]->index.bound_squared), List("mean", hashes[i]->index.mean),
                    List("codes", hashes[i]->index.codes), List("dirty", hashes[i]->dirty), "\n",
                    ActiveText(model, model.tables()[i]));
  }
  return text;
}

std::string RecordsText(const RecordStore& records) {
  std::string text;
  for (uint32_t row = 0; row < records.num_rows(); ++row) {
    const absl::Span<const char> record = records.Record(LocalRow(row));
    if (record.empty()) continue;
    absl::StrAppend(&text, "  record ", records.rows().ToGlobal(LocalRow(row)).value(), " ",
                    absl::BytesToHexString({record.data(), record.size()}), "\n");
  }
  return text;
}

std::string ModelText(const ShardModel& model) {
  std::string text = absl::StrCat("model ", model.spec().name, " shard ", model.shard().value(),
                                  " topology ", model.topology_version(), "\n");
  for (const ShardTable& table : model.tables()) {
    absl::StrAppend(&text, " table ", table.spec.name, " ", PrecisionName(table.spec.precision),
                    " applied ", table.applied().value(), "\n");
    if (table.records != nullptr) {
      text += RecordsText(*table.records);
      continue;
    }
    for (uint32_t row = 0; row < table.store().num_rows(); ++row) {
      text += RowText(table.store(), LocalRow(row));
    }
  }
  return text + HashText(model);
}

std::string ReplyText(const Reply& reply) {
  if (!reply.status.ok()) return absl::StrCat(reply.status.ToString(), " ", ReasonOf(reply.status));
  if (const auto* scatter = std::get_if<ScatterReply>(&reply.body)) {
    return absl::StrCat("scattered ", scatter->applied_steps);
  }
  if (const auto* embedded = std::get_if<EmbedForwardReply>(&reply.body)) {
    return absl::StrCat("embedded", List("partial", embedded->partial.data));
  }
  if (const auto* scored = std::get_if<HeadForwardReply>(&reply.body)) {
    const HeadForwardOutput& out = scored->output;
    return absl::StrCat("scored pairs ", out.active_pairs, " rows ", out.distinct_rows,
                        List("max", out.max_logits), List("sums", out.exp_sums),
                        List("labels", out.label_logits));
  }
  if (const auto* gradient = std::get_if<HeadBackwardReply>(&reply.body)) {
    return absl::StrCat("changed", List("gradient", gradient->hidden_gradient.data));
  }
  return absl::StrCat("answer ", reply.body.index());
}

std::string ClientsText(const shard::ClientTable& table) {
  std::string text;
  for (const auto& [id, client] : table.clients()) {
    absl::StrAppend(&text, "client ", Name(id), " of ", client.job, " low ", client.low, " next ",
                    client.next, " last ", client.last_command, client.lost ? " lost" : "",
                    " requests ", client.requests, " bad ", client.bad,
                    client.quarantined ? " quarantined" : "", "\n");
    for (const auto& reply : client.replies) absl::StrAppend(&text, " ", ReplyText(*reply), "\n");
  }
  for (const ClientId& id : table.closed()) absl::StrAppend(&text, "retired ", Name(id), "\n");
  return text;
}

std::string DataText(const FeatureBatch& features) {
  return absl::StrCat(" features", List("offsets", features.offsets), List("rows", features.rows),
                      List("values", features.values));
}

std::string DataText(const HeadContext& context) {
  const HeadBatch& batch = context.batch;
  return absl::StrCat(
      " head", List("hidden", batch.hidden), List("prints", batch.fingerprints),
      List("label_offsets", batch.label_offsets), List("labels", batch.labels),
      List("targets", batch.label_targets), List("recall", batch.recall_samples),
      List("rows", context.rows), List("shared", context.is_shared),
      List("pair_offsets", context.pair_offsets), List("score_offsets", context.score_offsets),
      List("samples", context.samples), List("is_label", context.is_label),
      List("tail_weights", context.tail_weights), List("scores", context.scores),
      List("max_logits", context.max_logits),
      // Kept texts of before there were weights have no word of them.
      context.pair_weights.empty() ? "" : List("weights", context.pair_weights),
      batch.label_weights.empty() ? "" : List("label_weights", batch.label_weights));
}

std::string ContextsText(const shard::StepContexts& contexts) {
  std::string text;
  for (const auto& [id, client] : contexts.clients()) {
    absl::StrAppend(&text, "steps of ", Name(id), " open from ", client.first_open_step, " kept ",
                    client.last_kept_step, " changed ", client.last_changed_step, "\n");
    for (const auto& [step, entries] : client.steps) {
      for (const auto& entry : entries) {
        absl::StrAppend(&text, " step ", step, " ", entry.model, "/", entry.table,
                        std::visit([](const auto& data) { return DataText(data); }, entry.data),
                        "\n");
      }
    }
  }
  return text;
}

}  // namespace

std::string TextOf(const ShardCore& core) {
  const shard::CoreLimits& limits = core.limits();
  const ShardCore::Counts counts = core.counts();
  std::string text = absl::StrCat(
      "limits window ", limits.clients.window, " clients ", limits.clients.max_clients, " idle ",
      limits.clients.idle_commands, " replies ", limits.clients.client_reply_bytes, " ",
      limits.clients.total_reply_bytes, " retired ", limits.clients.max_closed, " bad ",
      limits.clients.bad_requests, " contexts ", limits.context_bytes, " memory ",
      limits.memory_bytes, " models ", limits.max_models, "\nshard ", counts.shard.value(),
      " generation ", counts.generation, " topology ", counts.topology_version, " changes ",
      counts.changes, " mutations ", counts.mutations, "\n");
  for (const auto& [name, model] : core.models()) text += ModelText(*model);
  return absl::StrCat(text, ClientsText(core.clients()), ContextsText(core.contexts()),
                      absl::StrFormat("digest %016x\n", core.Digest()));
}

}  // namespace dslide::golden

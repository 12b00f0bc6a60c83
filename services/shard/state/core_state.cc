#include "services/shard/state/core_state.h"

#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/base/status_macros.h"
#include "core/system/format_version.h"
#include "core/wire/steps/reply_bytes.h"

namespace dslide::shard {
namespace {

constexpr uint32_t kStateFormat = 1;

absl::Status DamagedState(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the state ", what));
}

void Write(ByteWriter& out, const FeatureBatch& features) {
  out.Array(features.offsets);
  out.Array(features.rows);
  out.Array(features.values);
}

void Read(ByteReader& in, FeatureBatch& features) {
  features.offsets = in.Array<uint32_t>();
  features.rows = in.Array<LocalRow>();
  features.values = in.Array<float>();
}

void Write(ByteWriter& out, const HeadContext& context) {
  const HeadBatch& batch = context.batch;
  out.Array(batch.hidden);
  out.Array(batch.fingerprints);
  out.Array(batch.label_offsets);
  out.Array(batch.labels);
  out.Array(batch.label_targets);
  out.Array(batch.recall_samples);
  out.Array(context.rows);
  out.Array(context.is_shared);
  out.Array(context.pair_offsets);
  out.Array(context.score_offsets);
  out.Array(context.samples);
  out.Array(context.is_label);
  out.Array(context.tail_weights);
  out.Array(context.scores);
  out.Array(context.max_logits);
  out.Array(context.pair_weights);
  out.Array(batch.label_weights);
}

void Read(ByteReader& in, HeadContext& context) {
  HeadBatch& batch = context.batch;
  batch.hidden = in.Array<float>();
  batch.fingerprints = in.Array<uint32_t>();
  batch.label_offsets = in.Array<uint32_t>();
  batch.labels = in.Array<LocalRow>();
  batch.label_targets = in.Array<float>();
  batch.recall_samples = in.Array<uint32_t>();
  context.rows = in.Array<LocalRow>();
  context.is_shared = in.Array<uint8_t>();
  context.pair_offsets = in.Array<uint32_t>();
  context.score_offsets = in.Array<uint64_t>();
  context.samples = in.Array<uint32_t>();
  context.is_label = in.Array<uint8_t>();
  context.tail_weights = in.Array<float>();
  context.scores = in.Array<float>();
  context.max_logits = in.Array<float>();
  context.pair_weights = in.Array<float>();
  batch.label_weights = in.Array<float>();
}

void WriteClients(ByteWriter& out, const ClientTable& table) {
  out.Number<uint64_t>(table.clients().size());
  for (const auto& [id, client] : table.clients()) {
    out.Number(id);
    out.Bytes(client.job);
    out.Number(client.low);
    out.Number(client.next);
    out.Number(client.last_command);
    out.Number<uint8_t>(client.lost ? 1 : 0);
    out.Number(client.requests);
    out.Number(client.bad);
    out.Number<uint8_t>(client.quarantined ? 1 : 0);
    out.Number<uint64_t>(client.replies.size());
    for (const auto& reply : client.replies) out.Bytes(wire::EncodeReply(*reply));
  }
  out.Number<uint64_t>(table.closed().size());
  for (const ClientId& id : table.closed()) out.Number(id);
}

absl::Status ReadClients(ByteReader& in, ClientTable& table) {
  for (uint64_t count = in.Count(); count > 0 && in.ok(); --count) {
    const auto id = in.Number<ClientId>();
    ClientTable::Client client;
    client.job = std::string(in.Bytes());
    client.low = in.Number<uint64_t>();
    client.next = in.Number<uint64_t>();
    client.last_command = in.Number<int64_t>();
    client.lost = in.Number<uint8_t>() != 0;
    client.requests = in.Number<int64_t>();
    client.bad = in.Number<int64_t>();
    client.quarantined = in.Number<uint8_t>() != 0;
    for (uint64_t replies = in.Count(); replies > 0 && in.ok(); --replies) {
      ASSIGN_OR_RETURN(Reply reply, wire::DecodeReply(in.Bytes()));
      // Shared with the answers to repetitions.
      client.replies.push_back(std::make_shared<const Reply>(std::move(reply)));
    }
    if (in.ok() && client.next - client.low != client.replies.size()) {
      return DamagedState("has a client with too many or too few answers");
    }
    table.Restore(id, std::move(client));
  }
  for (uint64_t count = in.Count(); count > 0 && in.ok(); --count) {
    table.Close(in.Number<ClientId>());
  }
  return absl::OkStatus();
}

void WriteContexts(ByteWriter& out, const StepContexts& contexts) {
  out.Number<uint64_t>(contexts.clients().size());
  for (const auto& [id, client] : contexts.clients()) {
    out.Number(id);
    out.Number(client.first_open_step);
    out.Number(client.last_kept_step);
    out.Number(client.last_changed_step);
    uint64_t entries = 0;
    for (const auto& [step, step_entries] : client.steps) entries += step_entries.size();
    out.Number(entries);
    for (const auto& [step, step_entries] : client.steps) {
      for (const StepContexts::Entry& entry : step_entries) {
        out.Number(step);
        out.Bytes(entry.model);
        out.Bytes(entry.table);
        out.Number<uint64_t>(entry.data.index());
        std::visit([&](const auto& data) { Write(out, data); }, entry.data);
      }
    }
  }
}

absl::Status ReadContexts(ByteReader& in, StepContexts& contexts) {
  for (uint64_t clients = in.Count(); clients > 0 && in.ok(); --clients) {
    const auto id = in.Number<ClientId>();
    const auto first_open_step = in.Number<int64_t>();
    RETURN_IF_ERROR(contexts.Advance(id, first_open_step, first_open_step));
    const auto last_kept_step = in.Number<int64_t>();
    const auto last_changed_step = in.Number<int64_t>();
    for (uint64_t entries = in.Count(); entries > 0 && in.ok(); --entries) {
      const auto step = in.Number<int64_t>();
      const std::string model(in.Bytes());
      const std::string table(in.Bytes());
      ContextData data;
      if (in.Number<uint64_t>() == 1) data = HeadContext();
      std::visit([&](auto& concrete) { Read(in, concrete); }, data);
      if (in.ok()) contexts.Put(id, step, model, table, std::move(data));
    }
    contexts.RestoreSteps(id, last_kept_step, last_changed_step);
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeLimits(const CoreLimits& limits) {
  ByteWriter out;
  out.Number(limits.clients.window);
  out.Number(limits.clients.max_clients);
  out.Number(limits.clients.idle_commands);
  out.Number(limits.clients.client_reply_bytes);
  out.Number(limits.clients.total_reply_bytes);
  out.Number(limits.clients.max_closed);
  out.Number(limits.context_bytes);
  out.Number(limits.memory_bytes);
  out.Number(limits.max_models);
  out.Number(limits.clients.bad_requests);
  return std::move(out).Take();
}

absl::StatusOr<CoreLimits> DecodeLimits(absl::string_view bytes) {
  ByteReader in(bytes);
  CoreLimits limits;
  limits.clients.window = in.Number<int64_t>();
  limits.clients.max_clients = in.Number<int64_t>();
  limits.clients.idle_commands = in.Number<int64_t>();
  limits.clients.client_reply_bytes = in.Number<int64_t>();
  limits.clients.total_reply_bytes = in.Number<int64_t>();
  limits.clients.max_closed = in.Number<int64_t>();
  limits.context_bytes = in.Number<int64_t>();
  limits.memory_bytes = in.Number<int64_t>();
  limits.max_models = in.Number<int64_t>();
  limits.clients.bad_requests = in.Number<int64_t>();
  if (in.AtEnd()) return limits;
  return absl::DataLossError("a record of limits has another size");
}

std::string EncodeCoreState(const ShardCore& core) {
  ByteWriter out;
  out.Number(kStateFormat);
  out.Bytes(EncodeLimits(core.limits()));
  const ShardCore::Counts counts = core.counts();
  out.Number(counts.shard.value());
  out.Number(counts.generation);
  out.Number(counts.topology_version);
  out.Number(counts.changes);
  out.Number(counts.mutations);
  WriteClients(out, core.clients());
  WriteContexts(out, core.contexts());
  return std::move(out).Take();
}

absl::Status RestoreCoreState(absl::string_view bytes, ShardCore& core) {
  ByteReader in(bytes);
  const auto format = in.Number<uint32_t>();
  if (!in.ok()) return DamagedState("is cut");
  RETURN_IF_ERROR(
      CheckFormat("the state", format, {.oldest = kStateFormat, .newest = kStateFormat}));
  ASSIGN_OR_RETURN(const CoreLimits limits, DecodeLimits(in.Bytes()));
  core.SetLimits(limits);
  ShardCore::Counts counts;
  counts.shard = ShardId(in.Number<int32_t>());
  counts.generation = in.Number<uint64_t>();
  counts.topology_version = in.Number<uint64_t>();
  counts.changes = in.Number<int64_t>();
  counts.mutations = in.Number<int64_t>();
  core.RestoreCounts(counts);
  RETURN_IF_ERROR(ReadClients(in, core.mutable_clients()));
  RETURN_IF_ERROR(ReadContexts(in, core.mutable_contexts()));
  return in.AtEnd() ? absl::OkStatus() : DamagedState("is cut, or too long");
}

}  // namespace dslide::shard

#include "services/shard/state/step_contexts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/retry_after.h"
#include "services/shard/state/refusal.h"

namespace dslide::shard {
namespace {

// One for each of the few steps that are between forward and backward at one time.
constexpr size_t kSpares = 4;
constexpr absl::Duration kStepContextsRetryAfter = absl::Milliseconds(50);

}  // namespace

int64_t ContextBytes(const ContextData& data) {
  if (const auto* features = std::get_if<FeatureBatch>(&data)) {
    return static_cast<int64_t>(sizeof(FeatureBatch)) +
           4 * static_cast<int64_t>(features->offsets.size() + features->rows.size() +
                                    features->values.size());
  }
  return static_cast<int64_t>(sizeof(HeadContext)) + std::get<HeadContext>(data).memory_bytes();
}

absl::Status StepContexts::Advance(const ClientId& client, int64_t step, int64_t first_open_step) {
  Client& state = clients_[client];
  if (step < state.first_open_step) {
    return Refuse(reason::kStepClosed,
                  absl::StrCat("step is ", step, ", but first_open_step ", state.first_open_step,
                               " was sent before: no operation may follow for it"));
  }
  if (first_open_step <= state.first_open_step) return absl::OkStatus();
  state.first_open_step = first_open_step;
  while (!state.steps.empty() && state.steps.begin()->first < first_open_step) {
    for (Entry& entry : state.steps.begin()->second) Release(entry);
    state.steps.erase(state.steps.begin());
  }
  return absl::OkStatus();
}

absl::Status StepContexts::CheckRoom(int64_t bytes) const {
  if (bytes > budget_bytes_) {
    return Refuse(reason::kOverLimit,
                  absl::StrCat("the step's context needs ", bytes, " bytes, all may have ",
                               budget_bytes_, ": send smaller batches or raise --context-budget"));
  }
  if (bytes_ + bytes <= budget_bytes_) return absl::OkStatus();
  return OverloadStatus(
      reason::kContextsFull,
      absl::StrCat("open steps hold ", bytes_, " of ", budget_bytes_,
                   " bytes: finish them (backward, or a higher first_open_step) and send it again"),
      kStepContextsRetryAfter);
}

void StepContexts::Put(const ClientId& client, int64_t step, const std::string& model,
                       const std::string& table, ContextData data) {
  Erase(client, step, model, table);
  Entry entry{.model = model, .table = table, .data = std::move(data), .bytes = 0};
  entry.bytes = ContextBytes(entry.data);
  bytes_ += entry.bytes;
  Client& state = clients_[client];
  state.last_kept_step = std::max(state.last_kept_step, step);
  state.steps[step].push_back(std::move(entry));
}

void StepContexts::Changed(const ClientId& client, int64_t step) {
  Client& state = clients_[client];
  state.last_changed_step = std::max(state.last_changed_step, step);
}

void StepContexts::RestoreSteps(const ClientId& client, int64_t last_kept_step,
                                int64_t last_changed_step) {
  Client& state = clients_[client];
  state.last_kept_step = last_kept_step;
  state.last_changed_step = last_changed_step;
}

StepContexts::Entry* StepContexts::FindEntry(const ClientId& client, int64_t step,
                                             const std::string& model, const std::string& table) {
  const auto found_client = clients_.find(client);
  if (found_client == clients_.end()) return nullptr;
  const auto found_step = found_client->second.steps.find(step);
  if (found_step == found_client->second.steps.end()) return nullptr;
  for (Entry& entry : found_step->second) {
    if (entry.model == model && entry.table == table) return &entry;
  }
  return nullptr;
}

ContextData* StepContexts::Find(const ClientId& client, int64_t step, const std::string& model,
                                const std::string& table) {
  Entry* const entry = FindEntry(client, step, model, table);
  return entry == nullptr ? nullptr : &entry->data;
}

void StepContexts::Erase(const ClientId& client, int64_t step, const std::string& model,
                         const std::string& table) {
  Entry* const entry = FindEntry(client, step, model, table);
  if (entry == nullptr) return;
  Release(*entry);
  auto& steps = clients_[client].steps;
  std::vector<Entry>& entries = steps[step];
  entries.erase(entries.begin() + (entry - entries.data()));
  if (entries.empty()) steps.erase(step);
}

void StepContexts::Release(Entry& entry) {
  bytes_ -= entry.bytes;
  if (auto* context = std::get_if<HeadContext>(&entry.data)) GiveSpare(std::move(*context));
}

void StepContexts::DropClient(const ClientId& client) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  for (auto& [step, entries] : found->second.steps) {
    for (Entry& entry : entries) Release(entry);
  }
  clients_.erase(found);
}

void StepContexts::DropModel(const std::string& model) {
  for (auto& [client, state] : clients_) {
    for (auto step = state.steps.begin(); step != state.steps.end();) {
      std::vector<Entry>& entries = step->second;
      for (Entry& entry : entries) {
        if (entry.model == model) Release(entry);
      }
      std::erase_if(entries, [&](const Entry& entry) { return entry.model == model; });
      step = entries.empty() ? state.steps.erase(step) : std::next(step);
    }
  }
}

void StepContexts::MoveRows(const std::string& model, const std::string& table,
                            const ShardRows& from, const ShardRows& to) {
  if (from.table_rows() == to.table_rows()) return;
  // Both number them by slot, so that their order stays.
  const auto move = [&](std::vector<LocalRow>& rows) {
    for (LocalRow& row : rows) row = to.ToLocal(from.ToGlobal(row));
  };
  for (auto& [client, state] : clients_) {
    for (auto& [step, entries] : state.steps) {
      for (Entry& entry : entries) {
        if (entry.model != model || entry.table != table) continue;
        if (auto* const features = std::get_if<FeatureBatch>(&entry.data)) move(features->rows);
        if (auto* const head = std::get_if<HeadContext>(&entry.data)) {
          move(head->batch.labels);
          move(head->rows);
        }
      }
    }
  }
}

HeadContext StepContexts::TakeSpare() {
  if (spares_.empty()) return {};
  HeadContext spare = std::move(spares_.back());
  spares_.pop_back();
  return spare;
}

void StepContexts::GiveSpare(HeadContext context) {
  if (spares_.size() < kSpares) spares_.push_back(std::move(context));
}

int64_t StepContexts::count() const {
  int64_t count = 0;
  for (const auto& [client, state] : clients_) {
    for (const auto& [step, entries] : state.steps) count += static_cast<int64_t>(entries.size());
  }
  return count;
}

}  // namespace dslide::shard

#include "services/shard/sequencer/step_gate.h"

#include <algorithm>
#include <variant>

namespace dslide::shard {
namespace {

bool ChangesRows(const StepOp& op) {
  return std::holds_alternative<HeadBackwardOp>(op) ||
         std::holds_alternative<EmbedBackwardOp>(op) || std::holds_alternative<DenseScatterOp>(op);
}

const StepContexts::Client* Find(const StepContexts& contexts, const ClientId& client) {
  const auto found = contexts.clients().find(client);
  return found == contexts.clients().end() ? nullptr : &found->second;
}

// The highest step whose head forward has no backward yet; 0: none.
int64_t LastScoredStep(const StepContexts::Client* client) {
  if (client == nullptr) return 0;
  for (auto step = client->steps.rbegin(); step != client->steps.rend(); ++step) {
    for (const StepContexts::Entry& entry : step->second) {
      if (std::holds_alternative<HeadContext>(entry.data)) return step->first;
    }
  }
  return 0;
}

}  // namespace

const ClientId* SequencedClient(const Command& command) {
  if (const auto* step = std::get_if<StepCommand>(&command)) return &step->envelope.client;
  if (const auto* scatter = std::get_if<ScatterCommand>(&command)) return &scatter->envelope.client;
  if (const auto* refused = std::get_if<RefusedCommand>(&command)) return &refused->envelope.client;
  return nullptr;
}

void StepGate::Freeze(uint64_t checkpoint_id) {
  if (frozen_ && checkpoint_id_ == checkpoint_id) return;
  frozen_ = true;
  checkpoint_id_ = checkpoint_id;
  admitted_.clear();
}

void StepGate::Open() {
  frozen_ = false;
  admitted_.clear();
}

std::vector<ClientStep> StepGate::Changed(const StepContexts& contexts) {
  std::vector<ClientStep> changed;
  for (const auto& [id, client] : contexts.clients()) {
    if (client.last_changed_step > 0) changed.push_back({id, client.last_changed_step});
  }
  return changed;
}

bool StepGate::AnyBegun(const StepContexts& contexts) {
  return std::any_of(contexts.clients().begin(), contexts.clients().end(), [](const auto& entry) {
    const StepContexts::Client& client = entry.second;
    return !client.steps.empty() && client.steps.begin()->first <= client.last_changed_step;
  });
}

void StepGate::Admit(const ClientId& client, int64_t up_to) {
  Admitted& admitted = admitted_.try_emplace(client, Admitted{.first = up_to}).first->second;
  admitted.limit = std::max(admitted.limit, up_to);
}

int64_t StepGate::LimitOf(const ClientId& client, const StepContexts& contexts) const {
  const StepContexts::Client* const known = Find(contexts, client);
  const int64_t changed = known == nullptr ? 0 : known->last_changed_step;
  const auto admitted = admitted_.find(client);
  return admitted == admitted_.end() ? changed : std::max(changed, admitted->second.limit);
}

bool StepGate::IsComplete(const ClientId& client, int64_t limit,
                          const StepContexts& contexts) const {
  const auto waiting = waiting_.find(client);
  const StepContexts::Client* const known = Find(contexts, client);
  const int64_t said = std::max(known == nullptr ? 0 : known->first_open_step,
                                waiting == waiting_.end() ? 0 : waiting->second.first_open_step);
  const bool open = known != nullptr && !known->steps.empty() &&
                    known->steps.begin()->first <= limit && said <= limit;
  const bool changed =
      known != nullptr && known->last_changed_step >= limit && known->last_kept_step >= limit;
  return !open && (said > limit || changed);
}

bool StepGate::MustWait(const Command& command, const StepContexts& contexts) const {
  if (!frozen_) return false;
  const ClientId* const client = SequencedClient(command);
  if (client == nullptr) return false;
  if (waiting_.contains(*client)) return true;
  const auto* const step = std::get_if<StepCommand>(&command);
  if (step == nullptr) return false;
  const int64_t limit = LimitOf(*client, contexts);
  return step->step > limit && (ChangesRows(step->op) || IsComplete(*client, limit, contexts));
}

void StepGate::NoteWaiting(const Command& command) {
  Waiting& waiting = waiting_[*SequencedClient(command)];
  const auto* const step = std::get_if<StepCommand>(&command);
  if (step == nullptr) return;
  waiting.first_open_step = std::max(waiting.first_open_step, step->first_open_step);
  if (waiting.first_changing_step == 0 && ChangesRows(step->op)) {
    waiting.first_changing_step = step->step;
  }
}

void StepGate::NoteNoneWaiting(const ClientId& client) { waiting_.erase(client); }

std::vector<ClientStep> StepGate::Incomplete(const StepContexts& contexts) const {
  std::vector<ClientStep> incomplete;
  for (const auto& [id, admitted] : admitted_) {
    if (IsComplete(id, admitted.limit, contexts)) continue;
    const auto waiting = waiting_.find(id);
    int64_t up_to = waiting == waiting_.end() ? 0 : waiting->second.first_changing_step;
    if (up_to > 0 && admitted.limit == admitted.first) {
      up_to = std::max(up_to, LastScoredStep(Find(contexts, id)));
    }
    incomplete.push_back({id, up_to});
  }
  return incomplete;
}

}  // namespace dslide::shard

#include "services/shard/state/client_table.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "services/shard/state/refusal.h"

namespace dslide::shard {
namespace {

constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);

struct BytesOf {
  int64_t operator()(const EmbedForwardReply& reply) const { return Floats(reply.partial.data); }
  int64_t operator()(const HeadBackwardReply& reply) const {
    return Floats(reply.hidden_gradient.data);
  }
  int64_t operator()(const HeadForwardReply& reply) const {
    const HeadForwardOutput& output = reply.output;
    constexpr int64_t kRecallBytes = 256;
    return Floats(output.max_logits) + Floats(output.exp_sums) + Floats(output.label_logits) +
           kRecallBytes * static_cast<int64_t>(output.recall.size());
  }
  int64_t operator()(const DenseGatherReply& reply) const { return Rows(reply.rows); }
  int64_t operator()(const GatherReply& reply) const {
    return Rows(reply.rows) +
           4 * static_cast<int64_t>(reply.sample_offsets.size() + reply.sample_rows.size());
  }
  int64_t operator()(const TopKReply& reply) const {
    return 8 * static_cast<int64_t>(reply.scored.rows.size());
  }
  template <typename Small>
  int64_t operator()(const Small&) const {
    return 0;
  }

 private:
  static int64_t Floats(const std::vector<float>& values) {
    return 4 * static_cast<int64_t>(values.size());
  }
  static int64_t Rows(const RowBlock& block) {
    return 4 * static_cast<int64_t>(block.rows.size()) + Floats(block.values) +
           Floats(block.biases);
  }
};

absl::Status ClosedClient(const ClientId& client) {
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kClosedClient,
      absl::StrCat("client ", ShortName(client),
                   " has left or was given up after a long silence; draw a new client id"));
}

absl::Status Quarantined(const ClientId& client, int64_t most) {
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kQuarantined,
      absl::StrCat("client ", ShortName(client), " has sent more than ", most,
                   " bad requests among ", kQuarantineBlock,
                   ": find out why it does (the reasons were its answers), and "
                   "start it again with a new client id; --quarantine-limit is the bound"));
}

}  // namespace

int64_t ReplyBytes(const Reply& reply) {
  constexpr int64_t kFixedBytes = 256;
  return kFixedBytes + static_cast<int64_t>(reply.status.message().size()) +
         std::visit(BytesOf(), reply.body);
}

std::string ShortName(const ClientId& client) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(client.data()), 4));
}

template <typename Fits>
bool ClientTable::MakeRoom(const ClientId& except, int64_t now, const Fits& fits) {
  while (!fits()) {
    if (!EvictIdlest(except, now)) return false;
  }
  return true;
}

absl::StatusOr<ClientTable::Client*> ClientTable::Find(const ClientId& client,
                                                       const std::string& job) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) {
    if (closed_.contains(client)) return ClosedClient(client);
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kUnknownClient,
        absl::StrCat("client ", ShortName(client),
                     " is not known here: call Hello first (a restarted shard knows nobody)"));
  }
  if (found->second.job != job) {
    return Refuse(reason::kBadName,
                  absl::StrCat("envelope.job is \"", job, "\", but client ", ShortName(client),
                               " works for \"", found->second.job, "\""));
  }
  return &found->second;
}

void ClientTable::Acknowledge(Client& client, uint64_t low) {
  while (client.low < low && client.low < client.next) {
    const int64_t bytes = ReplyBytes(*client.replies.front());
    client.reply_bytes -= bytes;
    reply_bytes_ -= bytes;
    client.replies.pop_front();
    ++client.low;
  }
  // Sequences that were answered with an error which does not use them up, and then given up.
  client.low = std::max(client.low, low);
  client.next = std::max(client.next, low);
}

absl::StatusOr<uint64_t> ClientTable::Open(const ClientId& client, const std::string& job,
                                           uint64_t acknowledged, int64_t now) {
  if (clients_.contains(client)) {
    ASSIGN_OR_RETURN(Client* const known, Find(client, job));
    if (known->quarantined) return Quarantined(client, limits_.bad_requests);
    known->last_command = now;
    // It has answers that this state never gave: a loss of power has taken the end of the log with
    // them. They do not make the state older: what is lost stays lost, as often as it asks.
    if (acknowledged >= known->next) known->lost = true;
    Acknowledge(*known, acknowledged < known->next ? acknowledged + 1 : known->next);
    return known->next;
  }
  if (closed_.contains(client)) return ClosedClient(client);
  if (!MakeRoom(client, now, [&] { return open_clients() < limits_.max_clients; })) {
    return OverloadStatus(reason::kTooManyClients,
                          absl::StrCat("all ", limits_.max_clients,
                                       " places for clients are taken; clients that end should "
                                       "call CloseClient"),
                          kRetryAfter);
  }
  // A client that says it has answers is one that this shard does not remember: what it had applied
  // is lost, so it is told 1 and can see that, as often as it asks.
  Client fresh;
  fresh.lost = acknowledged > 0;
  fresh.job = job;
  fresh.last_command = now;
  clients_.emplace(client, std::move(fresh));
  return 1;
}

void ClientTable::Close(const ClientId& client) {
  if (const auto found = clients_.find(client); found != clients_.end()) {
    reply_bytes_ -= found->second.reply_bytes;
    clients_.erase(found);
  }
  if (!closed_.insert(client).second) return;
  closed_order_.push_back(client);
  if (static_cast<int64_t>(closed_order_.size()) > limits_.max_closed) {
    closed_.erase(closed_order_.front());
    closed_order_.pop_front();
  }
}

absl::StatusOr<std::shared_ptr<const Reply>> ClientTable::Admit(const Envelope& envelope,
                                                                int64_t now) {
  ASSIGN_OR_RETURN(Client* const client, Find(envelope.client, envelope.job));
  client->last_command = now;
  // The decoder has checked it, for commands from elsewhere.
  if (envelope.first_incomplete < 1 || envelope.first_incomplete > envelope.sequence) {
    return Refuse(reason::kBadSequence,
                  absl::StrCat("first_incomplete is ", envelope.first_incomplete, " with sequence ",
                               envelope.sequence));
  }
  if (envelope.sequence < client->low) {
    return Refuse(
        reason::kStaleSequence,
        absl::StrCat("sequence ", envelope.sequence, " of client ", ShortName(envelope.client),
                     " was acknowledged long ago (the oldest open one is ", client->low,
                     "); it is not applied again"));
  }
  Acknowledge(*client, envelope.first_incomplete);
  if (envelope.sequence < client->next) return client->replies[envelope.sequence - client->low];
  if (client->quarantined) return Quarantined(envelope.client, limits_.bad_requests);
  if (envelope.sequence > client->next) {
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSequenceGap,
        absl::StrCat("sequence ", envelope.sequence, " of client ", ShortName(envelope.client),
                     " came before ", client->next, ": send that one first"));
  }
  if (static_cast<int64_t>(client->next - client->low) >= limits_.window) {
    return OverloadStatus(
        reason::kWindowFull,
        absl::StrCat("client ", ShortName(envelope.client), " has ", limits_.window,
                     " mutations whose answers it has not acknowledged: raise first_incomplete"),
        kRetryAfter);
  }
  const auto fits = [&] { return reply_bytes_ < limits_.total_reply_bytes; };
  if (client->reply_bytes >= limits_.client_reply_bytes || !MakeRoom(envelope.client, now, fits)) {
    return OverloadStatus(
        reason::kRepliesFull,
        absl::StrCat("unacknowledged answers fill their budget (", client->reply_bytes,
                     " bytes for this client, ", reply_bytes_, " for all): raise first_incomplete"),
        kRetryAfter);
  }
  return nullptr;
}

void ClientTable::Complete(const Envelope& envelope, std::shared_ptr<const Reply> reply) {
  const auto found = clients_.find(envelope.client);
  if (found == clients_.end()) return;
  Client& client = found->second;
  const int64_t bytes = ReplyBytes(*reply);
  client.reply_bytes += bytes;
  reply_bytes_ += bytes;
  client.replies.push_back(std::move(reply));
  ++client.next;
}

bool ClientTable::Count(const ClientId& client, bool bad) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return false;
  Client& known = found->second;
  if (known.requests == kQuarantineBlock) known.requests = known.bad = 0;
  ++known.requests;
  if (!bad) return false;
  ++known.bad;
  if (limits_.bad_requests == 0 || known.bad <= limits_.bad_requests) return false;
  known.quarantined = true;
  // Its open steps will not be finished.
  evicted_.push_back(client);
  return true;
}

void ClientTable::Restore(const ClientId& client, Client state) {
  state.reply_bytes = 0;
  for (const auto& reply : state.replies) state.reply_bytes += ReplyBytes(*reply);
  reply_bytes_ += state.reply_bytes;
  clients_.insert_or_assign(client, std::move(state));
}

std::vector<ClientId> ClientTable::TakeEvicted() { return std::exchange(evicted_, {}); }

bool ClientTable::EvictIdlest(const ClientId& except, int64_t now) {
  const std::pair<const ClientId, Client>* idlest = nullptr;
  for (const auto& entry : clients_) {
    if (entry.first == except || now - entry.second.last_command < limits_.idle_commands) continue;
    if (idlest == nullptr || entry.second.last_command < idlest->second.last_command) {
      idlest = &entry;
    }
  }
  if (idlest == nullptr) return false;
  const ClientId client = idlest->first;
  evicted_.push_back(client);
  Close(client);
  return true;
}

}  // namespace dslide::shard

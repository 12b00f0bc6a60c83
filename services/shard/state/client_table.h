// Which mutations of which client were applied, and what was answered: the memory that makes a
// repeated request harmless.
//
// Source: RIFL (Lee et al. 2015, "Implementing linearizability at large scale and low latency"),
// with sequences contiguous per client and shard. Part of the state machine: deterministic, no
// clock. Time is counted in commands (`now`).

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/protocol/commands.h"

namespace dslide::shard {

struct ClientLimits {
  // Sequences between a client's oldest unacknowledged mutation and its newest.
  int64_t window = 1024;
  // Clients open at once. Beyond it, and beyond a budget, the client that has been silent for
  // longest is given up, if it was silent for `idle_commands` commands.
  int64_t max_clients = 4096;
  int64_t idle_commands = 1024;
  // Bytes of replies kept for one client, and for all.
  int64_t client_reply_bytes = int64_t{64} << 20;
  int64_t total_reply_bytes = int64_t{256} << 20;
  // Ids of clients that left; the oldest are forgotten beyond it.
  int64_t max_closed = 65536;
  // Bad requests that a client may send among kQuarantineBlock; one more, and it is quarantined.
  // 0: none ever is.
  int64_t bad_requests = 100;
};

// Requests of one client that are counted together.
inline constexpr int64_t kQuarantineBlock = 1000;

// Not thread-safe.
class ClientTable {
 public:
  struct Client {
    std::string job;
    uint64_t low = 1;                                  // the client has answers to all below it
    uint64_t next = 1;                                 // expected
    std::deque<std::shared_ptr<const Reply>> replies;  // of [low, next)
    int64_t reply_bytes = 0;
    int64_t last_command = 0;
    // It had answers when it was greeted that this state does not know: they are lost, and it was
    // told so.
    bool lost = false;
    // Of the present block: new mutations, and those whose content was refused.
    int64_t requests = 0;
    int64_t bad = 0;
    bool quarantined = false;  // for good: its repetitions are answered, nothing else
  };

  explicit ClientTable(ClientLimits limits) : limits_(limits) {}

  // Part of the state: a replay needs those of its time.
  void set_limits(const ClientLimits& limits) { limits_ = limits; }

  // Opens a client, or finds it open, and returns the sequence expected next. `acknowledged` is the
  // highest sequence that was confirmed to the client. When it is not below the returned one, this
  // state has lost updates, and that tells the client so. Sequences that the client has given up
  // are skipped by its next mutation. Errors: FailedPrecondition CLOSED_CLIENT, QUARANTINED;
  // ResourceExhausted TOO_MANY_CLIENTS; InvalidArgument BAD_NAME when the client belongs to another
  // job.
  absl::StatusOr<uint64_t> Open(const ClientId& client, const std::string& job,
                                uint64_t acknowledged, int64_t now);

  // Forgets everything about a client but its id, which is refused from then on.
  void Close(const ClientId& client);

  // Classifies a mutation. Returns the first answer of a repeated one, null for a new one, which is
  // then the next in sequence.
  // Errors: FailedPrecondition UNKNOWN_CLIENT, CLOSED_CLIENT, QUARANTINED, SEQUENCE_GAP;
  // InvalidArgument STALE_SEQUENCE, BAD_SEQUENCE, BAD_NAME; ResourceExhausted WINDOW_FULL,
  // REPLIES_FULL. None uses the sequence.
  absl::StatusOr<std::shared_ptr<const Reply>> Admit(const Envelope& envelope, int64_t now);

  // Uses up the sequence that Admit() just called new, and keeps its answer.
  void Complete(const Envelope& envelope, std::shared_ptr<const Reply> reply);

  // Counts a new mutation that was looked at. bad: its content was refused, whatever the state.
  // True when the client is quarantined for it, here and now.
  bool Count(const ClientId& client, bool bad);

  // Retires the client that was silent for longest, when memory is short. False when nobody but
  // `except` was silent for `idle_commands`.
  bool EvictIdlest(const ClientId& except, int64_t now);

  // The clients given up since the last call: whatever else is kept for them can go.
  std::vector<ClientId> TakeEvicted();

  int64_t open_clients() const { return static_cast<int64_t>(clients_.size()); }
  int64_t reply_bytes() const { return reply_bytes_; }

  // --- For images of the state.
  const std::map<ClientId, Client>& clients() const { return clients_; }
  const std::deque<ClientId>& closed() const { return closed_order_; }  // oldest first
  bool IsClosed(const ClientId& client) const { return closed_.contains(client); }
  // Puts back an open client that is not there. `reply_bytes` is counted anew.
  void Restore(const ClientId& client, Client state);

 private:
  absl::StatusOr<Client*> Find(const ClientId& client, const std::string& job);
  void Acknowledge(Client& client, uint64_t low);
  // Gives up silent clients until `fits()`. False when that cannot be had.
  template <typename Fits>
  bool MakeRoom(const ClientId& except, int64_t now, const Fits& fits);

  ClientLimits limits_;
  std::map<ClientId, Client> clients_;
  std::set<ClientId> closed_;
  std::deque<ClientId> closed_order_;  // oldest first
  int64_t reply_bytes_ = 0;
  std::vector<ClientId> evicted_;
};

// Memory that a reply holds, for budgets.
int64_t ReplyBytes(const Reply& reply);

// The first hex digits of a client id, for messages.
std::string ShortName(const ClientId& client);

}  // namespace dslide::shard

// A client that adds 1 to cells, each update to one of its own, by calls of their own: they may
// overtake each other and come twice. One identity for each shard.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "tests/simulation/nodes/shard_process.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// Not thread-safe.
class IncrementClient {
 public:
  // Sends `updates` to each shard. `world` outlives it.
  IncrementClient(World& world, Place place, int updates);

  void Start();
  void Kill();
  void Pause(absl::Duration time) { node_->Pause(time); }
  bool alive() const { return node_->alive(); }
  // Greets all shards once more, to hear of what is lost.
  void Settle();
  bool done() const;

 private:
  // What is sent to one shard.
  struct Pending {
    Update* update = nullptr;
    int calls = 0;  // on their way
  };
  struct Session {
    int shard = 0;
    ClientId id = {};
    uint64_t generation = 0;
    uint64_t next = 1;
    uint64_t acked = 0;                // the highest; earlier ones may be open
    std::map<uint64_t, Pending> open;  // not answered, by sequence
    int64_t greetings = 0;             // that were answered
    bool greeted = false;
    bool greeting = false;
    bool must_settle = false;
    int left = 0;           // updates still to be sent
    std::deque<Cell> read;  // some cells, for reads
  };

  void Greet(Session& session, absl::Duration pause);
  void OnGreeted(Session& session, const ShardAnswer& answer);
  void BeginAnew(Session& session, Telling what);
  void Go(Session& session);
  void SendAll(Session& session);
  void Send(Session& session, uint64_t sequence);
  // greeting: after which it was sent.
  void OnAnswer(Session& session, uint64_t sequence, const ClientId& as, int64_t greeting,
                const std::optional<ShardAnswer>& answer);
  void OnRefused(Session& session, const absl::Status& refusal);
  void ReadSome(Session& session);
  std::string Encode(const Session& session, const Update& update) const;

  World& world_;
  const NodePtr node_;
  std::vector<Session> sessions_;
};

}  // namespace dslide::simulation

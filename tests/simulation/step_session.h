// A trainer's stream to one shard: numbered operations, answered in order, sent again on the next
// stream when one breaks. Follows client/cpp/shard_stream.h, whose threads and connections a
// simulation cannot have.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "tests/simulation/nodes/shard_process.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// Not thread-safe.
class StepSession {
 public:
  // What an operation came to.
  using Done = std::function<void(const Reply&)>;
  // The client cannot go on under its id.
  using Gone = std::function<void(Telling what)>;

  // `world` outlives it.
  StepSession(World& world, NodePtr node, int shard, const ClientId& id, Gone gone);
  ~StepSession();

  void Open();
  // update: what it changes, or null.
  void Send(StepCommand command, Update* update, Done done);
  // The sequence of the next operation.
  uint64_t next() const { return next_; }
  // Greets once more; settled() when that is answered.
  void Settle();
  bool settled() const { return connected_ && !must_settle_ && unanswered_.empty(); }

 private:
  struct Unanswered {
    StepCommand command;
    Update* update = nullptr;
    Done done;
    bool held_before = false;
  };
  // Work of this session that comes later: nothing when the session is gone.
  std::function<void()> Own(std::function<void()> work);
  void Greet(absl::Duration pause);
  void OnGreeted(const ShardAnswer& answer);
  void StartStream();
  void Write();
  void WriteOne(const Unanswered& entry);
  void OnAnswer(int64_t stream, uint64_t sequence, const ShardAnswer& answer);
  // Whether what was refused is sent again.
  bool Hold(const absl::Status& refusal);
  void Resume();
  void Break();
  void Watch(int64_t stream, int64_t answers);

  World& world_;
  const NodePtr node_;
  const int shard_;
  const ClientId id_;
  const Gone gone_;
  const std::shared_ptr<bool> here_ = std::make_shared<bool>(true);  // shared with what comes later
  uint64_t generation_ = 0;
  uint64_t next_ = 1;
  std::deque<Unanswered> unanswered_;
  size_t written_ = 0;
  size_t held_ = 0;
  bool connected_ = false;
  bool greeting_ = false;
  bool must_settle_ = false;
  int64_t stream_ = 0;   // number
  int64_t answers_ = 0;  // of all streams
  ShardProcess* peer_ = nullptr;
  std::shared_ptr<Lane> up_, down_;  // shared with messages on their way
};

}  // namespace dslide::simulation

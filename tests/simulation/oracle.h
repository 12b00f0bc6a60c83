// What the simulated cluster owes to its clients, kept outside of it, and the judgement.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "services/coordinator/checkpoints/manifest.h"
#include "services/coordinator/jobs/job.h"
#include "services/shard/durability/durability.h"
#include "services/shard/log/log_record.h"
#include "services/shard/state/shard_core.h"
#include "tests/simulation/layout.h"
#include "tests/simulation/nodes/memory_image.h"
#include "tests/simulation/trace.h"

namespace dslide::simulation {

// One mutation of a client: cell `where` is `floor` at least when it was applied.
struct Update {
  Cell where;
  ClientId client = {};
  uint64_t sequence = 0;
  float floor = 1;
  bool acked = false;
  bool seen = false;     // by a read
  bool lost = false;     // acknowledged, and gone as the mode allows
  bool unsure = false;   // its acknowledgement came from a life of the shard that was over
  bool told = false;     // the client was told of a loss
  bool kept = false;     // a committed checkpoint has it, and the shard must
  bool cut_off = false;  // a loss of power has taken it from the log, whatever a checkpoint has
  int64_t life = 0;      // of the shard's state, when it was acknowledged
};

// What a shard may have lost when it comes back.
enum class Loss { kNothing, kUnsynced, kEverything };

// What a shard has told a client that must begin anew: of a loss, in which life of its state;
// nothing: that the client was retired.
using Telling = std::optional<int64_t>;

// Not thread-safe.
class Oracle {
 public:
  // What is passed outlives it.
  Oracle(shard::Durability mode, int shards, Trace& trace);

  // --- Clients.
  Update& Send(const Cell& where, const ClientId& client, uint64_t sequence, float floor);
  // life: what the shard's life() was when it answered.
  void Acked(Update& update, int64_t life);
  // An answer to a mutation: all that it gets in one life of the shard's state must be equal.
  void Answered(const ClientId& client, uint64_t sequence, int shard, int64_t life,
                const Reply& reply);
  // The shard has told the client that its updates are lost, or has retired it.
  void Told(const ClientId& client, int shard, Telling what);
  // The client begins anew, and does not ask any more what became of its updates there.
  void GivesUp(const ClientId& client, int shard);
  // A read has shown the cell.
  void Read(const Cell& where, float value, int64_t life);
  // It will never hear of anything again.
  void Died(const ClientId& client) { dead_.insert(client); }
  // A trainer counts its steps there, on each shard.
  void Counts(const ClientId& client, const std::vector<Cell>& rows) { tracers_[client] = rows; }

  // --- Shards.
  int64_t life(int shard) const { return shards_[static_cast<size_t>(shard)].life; }
  void Appended(int shard, const shard::LogRecord& record);
  // The shard has come back from its log, whose last record is `last`.
  void Recovered(int shard, uint64_t last, bool power, const shard::ShardCore& core);
  // It has come back without rows.
  void CameBackEmpty(int shard);
  // The cluster does not go back for it: what it came back with are its rows from now on.
  void BeginsAfresh(int shard) { shards_[static_cast<size_t>(shard)].empty = false; }
  // It went back to that part of a checkpoint.
  void WentBack(int shard, const MemoryImage& part, const shard::ShardCore& core);
  // Its state is now this image, and records up to the image's do not count any more.
  void Forced(int shard, const MemoryImage& image);
  // The shard's state is the one that an uninterrupted shard would have.
  void CompareWithTwin(int shard, uint64_t last, const shard::ShardCore& core);

  // --- Checkpoints and leases. A client that is retired because it did not finish in time.
  void Evicted(const ClientId& client) { evicted_.insert(client); }
  void Committed(const coordinator::Manifest& manifest,
                 const std::vector<const MemoryImage*>& parts);
  void Counted(const coordinator::JobRecord& record, int64_t chunks_done);
  // From here on chunks are counted by this job, as it is now.
  void NewJob(const coordinator::JobRecord& record, int64_t chunks_done, uint64_t restores);
  // A coordinator that starts has this job, or none (null). restoring: it may be another than it
  // was.
  void Resumed(const coordinator::JobRecord* record, uint64_t restores, bool restoring);
  void Trained(int64_t epoch, int64_t chunk) { trained_.insert({epoch, chunk}); }

  // At the end, when all shards are up and all clients have come to rest.
  void Finish(const std::vector<const shard::ShardCore*>& cores);

  int64_t updates() const { return static_cast<int64_t>(updates_.size()); }

 private:
  struct Shard {
    int64_t life = 0;
    bool empty = false;               // it came back without rows, and has not got any others yet
    std::deque<std::string> records;  // of the log, after what the twin has
    uint64_t first = 1;               // lsn of the first of them
    std::unique_ptr<shard::ShardCore> twin;
  };
  void Judge(int shard, Loss allowed, const shard::ShardCore* core);
  void CheckPart(int shard, const MemoryImage& part);
  void CheckCut(const coordinator::Manifest& manifest,
                const std::vector<const MemoryImage*>& parts);
  void CheckAtEnd(const Update& update, float value);
  float& Highest(const Cell& where);

  const shard::Durability mode_;
  Trace& trace_;
  std::deque<Update> updates_;                        // stay where they are
  std::map<std::pair<int, int64_t>, float> highest_;  // (shard, cell): what was ever sent
  std::map<std::tuple<ClientId, uint64_t, int, int64_t>, std::string> answers_;
  std::set<ClientId> dead_, evicted_, gone_;
  std::map<ClientId, std::vector<Cell>> tracers_;
  std::vector<Shard> shards_;
  bool went_back_ = false;
  bool committed_ = false;                         // there is a checkpoint
  std::set<std::pair<int64_t, int64_t>> trained_;  // (epoch, chunk)
  std::set<std::pair<int64_t, int64_t>> counted_;
  int64_t counted_at_start_ = 0;  // of the present job
  uint64_t job_restores_ = 0;     // of the cluster, when the job became that
  int64_t counts_at_start_ = 0;
};

}  // namespace dslide::simulation

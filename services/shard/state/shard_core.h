// The shard as a deterministic state machine: commands in, answers out.
//
// Same commands, same order -> same bits, whatever the number of threads: no clock, no random
// numbers but counter-based ones, no I/O. Recovery by replay and exactly-once mutations rest on it.
//
// Checks of a mutation, in this order: generation, model, topology version, client and sequence,
// then the whole request against the tables; only then anything is applied. Which answers use up
// the sequence, so that a repetition gets the same one: success and InvalidArgument (the request
// stays wrong). All other errors leave it open (another moment may answer differently), and the
// client sends it again or gives it up by a higher first_incomplete. A refused request leaves all
// rows as they were; what it acknowledges (first_incomplete, first_open_step) counts all the same.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/parallel.h"
#include "core/protocol/commands.h"
#include "core/system/stage_times.h"
#include "services/shard/state/client_table.h"
#include "services/shard/state/load_progress.h"
#include "services/shard/state/shard_model.h"
#include "services/shard/state/step_contexts.h"

namespace dslide::shard {

// What decides whether a command is refused for want of room. Part of the state: a replay needs
// those of its time.
struct CoreLimits {
  ClientLimits clients = {};
  // All open steps' contexts together.
  int64_t context_bytes = int64_t{512} << 20;
  // Rows and hash tables of all models together.
  int64_t memory_bytes = INT64_MAX;
  int64_t max_models = 256;
};

struct ShardCoreOptions : CoreLimits {
  Parallelism parallelism = {};
  ModelLimits models = {};
  // Where the time of steps is added up; may be null; outlives the core. Decides nothing.
  StageTimes* stages = nullptr;
  // Where rows are counted that storage puts in; as `stages`.
  LoadProgress* loading = nullptr;
};

// False for commands that leave the state as it is, whatever comes: those need not be logged.
bool MayChangeState(const Command& command);

struct Answer {
  // Never null. Shared by the dedup window and by whoever encodes it.
  std::shared_ptr<const Reply> reply;
  // Of the shard when it answered.
  uint64_t generation = 0;
  // In which the model's activations travel; f32 when the command names no model.
  ActivationType activations = ActivationType::kF32;
  // The first answer of a repeated mutation.
  bool repeated = false;
};

// Not thread-safe: one thread applies commands (sequencer.h).
class ShardCore {
 public:
  explicit ShardCore(ShardCoreOptions options);

  Answer Apply(Command command);

  // A model, for storage. Null when there is none.
  ShardModel* FindModel(const std::string& name);
  const std::map<std::string, std::shared_ptr<ShardModel>>& models() const { return models_; }
  // An empty part of a model, to be filled from a checkpoint and then put in place by InstallModel.
  // record_bytes: memory of the records that it will be filled with.
  absl::StatusOr<std::unique_ptr<ShardModel>> NewModel(const CreateModelCommand& command,
                                                       int64_t record_bytes = 0);
  // Replaces the model of that name, or adds it; open steps' contexts of it are dropped.
  void InstallModel(std::unique_ptr<ShardModel> model);
  // Drops all models, for room: what is left is good for nothing until ReplaceState().
  void DropAllModels();
  // Takes over the state of a core that an image was loaded into. Who this shard is, its limits and
  // the metrics' counts stay; clients that the state knows are refused from now on.
  void ReplaceState(ShardCore other);

  const CoreLimits& limits() const { return options_; }
  LoadProgress* loading() const { return options_.loading; }
  void SetLimits(const CoreLimits& limits);

  // Finishes builds of hash tables that are under way: an image has tables, but no half-made ones.
  // Whoever goes on beside a restored image settles at the same point.
  void SettleTables();
  // HeadTable::building() and SettlingWaits() of any table.
  bool building() const;
  bool SettlingWaits(int64_t steps) const;

  // --- For images of the state: what is not rows.
  struct Counts {
    ShardId shard = ShardId(-1);
    uint64_t generation = 0;
    uint64_t topology_version = 0;
    int64_t changes = 0;  // commands that may change something, refused ones too
    int64_t mutations = 0;
  };
  Counts counts() const;
  void RestoreCounts(const Counts& counts);
  ClientTable& mutable_clients() { return clients_; }
  StepContexts& mutable_contexts() { return contexts_; }

  ShardId shard() const { return shard_; }
  uint64_t generation() const { return generation_; }
  uint64_t topology_version() const { return topology_version_; }

  // --- For metrics and tests.
  // Sum over all models' rows and update counts: equal states, equal digests.
  uint64_t Digest() const;
  ModelCounters Counters() const;
  int64_t memory_bytes() const;
  int64_t commands() const { return commands_; }
  int64_t mutations() const { return mutations_; }
  int64_t quarantined() const { return quarantined_; }  // clients, in this life
  const ClientTable& clients() const { return clients_; }
  const StepContexts& contexts() const { return contexts_; }

 private:
  using Work = absl::FunctionRef<absl::StatusOr<ReplyBody>(ShardModel&)>;

  Answer Run(StepCommand& command);
  Answer Run(ScatterCommand& command);
  Answer Run(RefusedCommand& command);
  Answer Run(GatherCommand& command);
  Answer Run(ReadCommand& command);
  Answer Run(TopKCommand& command);
  Answer Run(CreateModelCommand& command);
  Answer Run(DropModelCommand& command);
  Answer Run(DescribeModelCommand& command);
  Answer Run(ReadRowsCommand& command);
  Answer Run(HelloCommand& command);
  Answer Run(CloseClientCommand& command);
  Answer Run(SetOwnershipCommand& command);

  // Runs `work` if the envelope belongs to a new mutation, and keeps the answer.
  Answer Mutate(const Envelope& envelope, Work work);
  absl::StatusOr<ReplyBody> RunOp(ShardModel& model, StepCommand& command);
  absl::StatusOr<ReplyBody> EmbedForward(ShardModel& model, StepCommand& command);
  absl::StatusOr<ReplyBody> EmbedBackward(ShardModel& model, StepCommand& command);
  absl::StatusOr<ReplyBody> HeadForward(ShardModel& model, StepCommand& command);
  absl::StatusOr<ReplyBody> HeadBackward(ShardModel& model, StepCommand& command);

  absl::StatusOr<ShardModel*> LookUp(const std::string& name, uint64_t topology_version);
  absl::StatusOr<bool> CreateModel(CreateModelCommand& command);
  absl::Status GrowModel(ShardModel& present, const CreateModelCommand& command);
  // Whether so many bytes of records would fit into the memory budget.
  absl::Status CheckMemory(int64_t more) const;
  // Of all models, beside memory_bytes(): ShardModel::kept_bytes().
  int64_t kept_bytes() const;
  // For more of it.
  int64_t room() const;
  void ForgetKept() const;
  // Whether contexts of so many bytes fit, after giving up silent clients if that makes room.
  absl::Status MakeContextRoom(const ClientId& client, int64_t bytes);
  void DropEvicted();
  bool AnyHead(absl::FunctionRef<bool(const HeadTable&)> holds) const;
  Answer Ok(ReplyBody body, const ShardModel* model = nullptr) const;
  Answer Error(absl::Status status) const;

  ShardCoreOptions options_;
  ShardId shard_ = ShardId(-1);
  uint64_t generation_ = 0;
  uint64_t topology_version_ = 0;
  std::map<std::string, std::shared_ptr<ShardModel>> models_;  // shared with snapshots
  ClientTable clients_;
  StepContexts contexts_;
  int64_t commands_ = 0;   // all, refused ones too
  int64_t changes_ = 0;    // without those that only read: the clock of the state machine
  int64_t mutations_ = 0;  // applied
  int64_t quarantined_ = 0;
  ModelCounters dropped_;  // counters of models that are gone
};

}  // namespace dslide::shard

// The coordinator's calls to shards over the simulated network. They block as the real ones do:
// until the answer is there, everybody else goes on.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/coordinator/membership/shard_admin.h"
#include "services/shard/sequencer/sequencer.h"
#include "tests/simulation/network.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

class ShardProcess;

// Not thread-safe.
class ShardCalls final : public coordinator::ShardAdmin {
 public:
  // `node`: the coordinator's. `world` outlives it.
  ShardCalls(World& world, NodePtr node) : world_(world), node_(std::move(node)) {}

  static std::string AddressOf(int shard);

  absl::StatusOr<bool> CreateModel(const std::string& address, const CreateModelCommand& command,
                                   absl::Duration timeout) override;
  absl::StatusOr<absl::Duration> EstimateFreezeDelay(const std::string& address,
                                                     uint64_t generation,
                                                     absl::Duration timeout) override;
  absl::StatusOr<std::vector<ClientStep>> FreezeSteps(const std::string& address,
                                                      uint64_t checkpoint_id, uint64_t generation,
                                                      absl::Duration limit,
                                                      absl::Duration timeout) override;
  absl::StatusOr<std::vector<ClientStep>> AdmitSteps(const std::string& address,
                                                     uint64_t checkpoint_id,
                                                     const std::vector<ClientStep>& up_to,
                                                     const std::vector<ClientId>& evict,
                                                     absl::Duration timeout) override;
  absl::StatusOr<absl::Duration> CutCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                               const coordinator::PartBase& base,
                                               absl::Duration timeout) override;
  absl::Status AbortCheckpoint(const std::string& address, uint64_t checkpoint_id,
                               absl::Duration timeout) override;
  absl::StatusOr<coordinator::PartProgress> CheckpointProgress(const std::string& address,
                                                               uint64_t checkpoint_id,
                                                               absl::Duration timeout) override;
  absl::Status VerifyCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                uint32_t files_checksum, absl::Duration timeout,
                                coordinator::WorkProgress& progress) override;
  absl::Status PrepareRollback(const std::string& address, uint64_t checkpoint_id,
                               uint32_t files_checksum, absl::Duration timeout,
                               coordinator::WorkProgress& progress) override;
  absl::Status RetainCheckpoints(const std::string& address,
                                 const std::vector<uint64_t>& checkpoint_ids,
                                 absl::Duration timeout) override;
  absl::StatusOr<int64_t> Rollback(const std::string& address, uint64_t checkpoint_id,
                                   uint32_t files_checksum, absl::Duration timeout) override;
  void Stop() override {}

  // Calls that this cluster does not make.
  absl::Status DropModel(const std::string&, const std::string&, absl::Duration) override;
  absl::StatusOr<coordinator::CheckpointSize> WriteCheckpoint(const std::string&,
                                                              const std::string&,
                                                              const std::string&,
                                                              const std::vector<std::string>&,
                                                              absl::Duration) override;
  absl::StatusOr<int64_t> LoadCheckpoint(const std::string&, const std::string&, const std::string&,
                                         absl::Duration) override;

 private:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  template <typename T>
  absl::StatusOr<T> Ask(const std::string& address, absl::Duration timeout,
                        std::function<void(ShardProcess&, Done<T>)> ask);
  // What is answered within a task of the shard's sequencer.
  template <typename T>
  using CoreQuestion = std::function<absl::StatusOr<T>(ShardProcess&, shard::ShardCore&)>;
  template <typename T>
  absl::StatusOr<T> AskCore(const std::string& address, absl::Duration timeout, CoreQuestion<T> ask,
                            shard::QueuePlace place = shard::QueuePlace::kFront);
  // With some probability, kills who makes the call or who gets it.
  void MaybeKill(Fault phase, const std::string& address);

  World& world_;
  const NodePtr node_;
};

}  // namespace dslide::simulation

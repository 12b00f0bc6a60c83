// What the coordinator asks of shards, without how it travels.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/protocol/client_step.h"
#include "core/protocol/commands.h"
#include "services/coordinator/tasks/work_progress.h"

namespace dslide::coordinator {

struct CheckpointSize {
  int64_t rows = 0;
  int64_t bytes = 0;
};

// A committed checkpoint whose part on a shard the next one's may be built on.
struct PartBase {
  uint64_t checkpoint_id = 0;   // 0: none, all rows are to be written
  uint32_t files_checksum = 0;  // of the list of that part's files
};

// A shard's part of a cluster checkpoint, as far as it is written.
struct PartProgress {
  enum class State { kUnknown, kWriting, kPrepared, kFailed };
  State state = State::kUnknown;
  int64_t rows = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  uint32_t files_checksum = 0;
  uint64_t base_checkpoint_id = 0;  // that it was built on; 0: none
  int64_t written_bytes = 0;        // without those that it shares with that one
  std::string error;
};

// Calls block until the shard has answered, or for `timeout`. Errors are the shard's own, or
// Unavailable and DeadlineExceeded when it cannot be reached. Thread safety: safe from any thread.
class ShardAdmin {
 public:
  virtual ~ShardAdmin() = default;

  // True when it was created, false when an equal model was there.
  virtual absl::StatusOr<bool> CreateModel(const std::string& address,
                                           const CreateModelCommand& command,
                                           absl::Duration timeout) = 0;
  // NotFound when the shard does not have it.
  virtual absl::Status DropModel(const std::string& address, const std::string& model,
                                 absl::Duration timeout) = 0;
  // best_kept: see WriteCheckpointRequest.
  virtual absl::StatusOr<CheckpointSize> WriteCheckpoint(const std::string& address,
                                                         const std::string& model,
                                                         const std::string& checkpoint,
                                                         const std::vector<std::string>& best_kept,
                                                         absl::Duration timeout) = 0;
  // Returns the rows restored.
  virtual absl::StatusOr<int64_t> LoadCheckpoint(const std::string& address,
                                                 const std::string& model,
                                                 const std::string& checkpoint,
                                                 absl::Duration timeout) = 0;

  // --- Parts of cluster checkpoints (ShardService has what they do).
  // For how long to wait for a better moment to freeze; zero: it is now.
  virtual absl::StatusOr<absl::Duration> EstimateFreezeDelay(const std::string& address,
                                                             uint64_t generation,
                                                             absl::Duration timeout) = 0;
  // Returns the highest steps that have changed rows.
  virtual absl::StatusOr<std::vector<ClientStep>> FreezeSteps(const std::string& address,
                                                              uint64_t checkpoint_id,
                                                              uint64_t generation,
                                                              absl::Duration limit,
                                                              absl::Duration timeout) = 0;
  // Returns what is not complete yet.
  virtual absl::StatusOr<std::vector<ClientStep>> AdmitSteps(const std::string& address,
                                                             uint64_t checkpoint_id,
                                                             const std::vector<ClientStep>& up_to,
                                                             const std::vector<ClientId>& evict,
                                                             absl::Duration timeout) = 0;
  // Returns for how long requests had to wait for it.
  virtual absl::StatusOr<absl::Duration> CutCheckpoint(const std::string& address,
                                                       uint64_t checkpoint_id, const PartBase& base,
                                                       absl::Duration timeout) = 0;
  // Lets steps go on without a cut, and gives up the part that is still being written.
  virtual absl::Status AbortCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                       absl::Duration timeout) = 0;
  virtual absl::StatusOr<PartProgress> CheckpointProgress(const std::string& address,
                                                          uint64_t checkpoint_id,
                                                          absl::Duration timeout) = 0;
  // Returns early, with any error, when the work is to end.
  virtual absl::Status VerifyCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                        uint32_t files_checksum, absl::Duration timeout,
                                        WorkProgress& progress) = 0;
  // The same, and the shard gets ready for a Rollback. AbortCheckpoint undoes that.
  virtual absl::Status PrepareRollback(const std::string& address, uint64_t checkpoint_id,
                                       uint32_t files_checksum, absl::Duration timeout,
                                       WorkProgress& progress) = 0;
  virtual absl::Status RetainCheckpoints(const std::string& address,
                                         const std::vector<uint64_t>& checkpoint_ids,
                                         absl::Duration timeout) = 0;
  // Returns the rows.
  virtual absl::StatusOr<int64_t> Rollback(const std::string& address, uint64_t checkpoint_id,
                                           uint32_t files_checksum, absl::Duration timeout) = 0;

  // Ends all calls with Unavailable, later ones at once. When it returns none runs: a shard of this
  // process may go then, and gRPC crashes in a call that begins while its server is shut down.
  virtual void Stop() = 0;
};

}  // namespace dslide::coordinator

// What the coordinator asks of shards, without how it travels.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/model/commands.h"

namespace dslide::coordinator {

struct CheckpointSize {
  int64_t rows = 0;
  int64_t bytes = 0;
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
  virtual absl::StatusOr<CheckpointSize> WriteCheckpoint(const std::string& address,
                                                         const std::string& model,
                                                         const std::string& checkpoint,
                                                         absl::Duration timeout) = 0;
  // Returns the rows restored.
  virtual absl::StatusOr<int64_t> LoadCheckpoint(const std::string& address,
                                                 const std::string& model,
                                                 const std::string& checkpoint,
                                                 absl::Duration timeout) = 0;

  // Ends all running calls, and every later one at once, with Unavailable.
  virtual void Stop() = 0;
};

}  // namespace dslide::coordinator

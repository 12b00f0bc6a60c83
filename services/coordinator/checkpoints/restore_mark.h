// Whether the cluster is to be taken back to a checkpoint: a file that says so until it is done.
//
//   <data dir>/checkpoints/RESTORING
//
// Shards go back one by one. Whoever dies meanwhile leaves some that have and some that have not,
// and a coordinator that starts again must know that.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace dslide::coordinator {

// Thread safety: safe from any thread. What it says is durable when a call returns.
// Errors: Unavailable with the system's reason; what it said stays.
class RestoreMark {
 public:
  // To the newest one, whichever that is.
  static constexpr uint64_t kNewest = 0;

  // The one on the disk. Errors: DataLoss when the file is damaged; FailedPrecondition when
  // another version has written it.
  static absl::StatusOr<std::unique_ptr<RestoreMark>> Open(const std::string& directory);
  virtual ~RestoreMark() = default;

  // A shard has lost its rows. Changes nothing when it is set already.
  absl::Status Want();
  // Shards begin to go back to this checkpoint_id.
  absl::Status Begin(uint64_t checkpoint_id);
  // All shards are there.
  absl::Status Clear();

  // To which one; none: nowhere.
  std::optional<uint64_t> checkpoint_id() const;
  // Some shards may be there, and others not.
  bool begun() const { return checkpoint_id().value_or(kNewest) != kNewest; }

 protected:
  explicit RestoreMark(std::optional<uint64_t> checkpoint_id) : checkpoint_id_(checkpoint_id) {}

 private:
  // Makes it durable; none: that there is nothing. One call at a time.
  virtual absl::Status Write(std::optional<uint64_t> checkpoint_id) = 0;
  absl::Status Set(std::optional<uint64_t> checkpoint_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::optional<uint64_t> checkpoint_id_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::coordinator

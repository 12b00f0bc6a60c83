// The state of a shard at one moment, as a view in memory that is written while the shard goes on.
// Rows are copied when somebody is about to change them (core/engine/rows/row_snapshot.h). All else
// is copied at once.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/engine/rows/row_changes.h"
#include "core/engine/rows/row_snapshot.h"
#include "services/shard/image/part_base.h"
#include "services/shard/image/shard_image.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

class ShardSnapshot {
 public:
  // True if a snapshot was taken and not released.
  static bool Active(const ShardCore& core);

  // The core as it is now. On the thread that applies commands; one snapshot at a time. Copies take
  // at most a quarter of the tables' memory and kLeastCopiedBytes; then changes wait.
  static std::unique_ptr<ShardSnapshot> Take(uint64_t lsn, ShardCore& core);
  static constexpr int64_t kLeastCopiedBytes = int64_t{256} << 20;
  // The same for the cut of cluster checkpoint `checkpoint_id`. From here on the rows record what
  // changes, so that a later checkpoint may be an increment of this one. This one may be an
  // increment of `base` if the rows have recorded what changed since that cut.
  static std::unique_ptr<ShardSnapshot> TakeCut(uint64_t lsn, ShardCore& core,
                                                uint64_t checkpoint_id, const PartBase& base);

  // Writes the image (shard_image.h) into `directory`, which must not exist. Once; on any thread,
  // while the core goes on. Errors: those of WriteImage().
  absl::StatusOr<ImageSize> Write(const std::string& directory);

  // Which part it may be built on; checkpoint_id 0: none.
  const PartBase& base() const { return base_; }
  // Why there is none though one was asked for; "" otherwise.
  const std::string& why_no_base() const { return why_no_base_; }
  // With a base, the rows that have changed since then: [models][tables].
  const std::vector<std::vector<ChangedRows>>& changed() const { return changed_; }
  // A pass over the marks of all rows: the bytes of those, and of all.
  struct Share {
    int64_t changed_bytes = 0;
    int64_t bytes = 0;
  };
  Share ChangedShare() const;
  // As Write(), of what has changed, into a directory that LinkBase() has filled.
  absl::StatusOr<ImageSize> WriteIncrement(const std::string& directory, const LinkedBase& linked);

  // For whoever writes it elsewhere, once and on any thread: what is not rows, and the rows of
  // model `number` of the parts.
  const ImageParts& parts() const { return parts_; }
  std::unique_ptr<RecordSource> Records(size_t number) const;

  // Ends the writing early, so that no change of a row waits for it. From any thread.
  void Abandon();

  // Detaches the snapshot from the core's rows. On the thread that applies commands, after Write().
  void Release();

  // Memory of the copies now.
  int64_t copied_bytes() const;

 private:
  ShardSnapshot() = default;

  // Fills changed_ while all tables know that cut.
  void FindChanges(const PartBase& base);

  ImageParts parts_;
  PartBase base_;
  std::string why_no_base_;
  std::vector<std::vector<ChangedRows>> changed_;
  std::vector<std::shared_ptr<ShardModel>> models_;
  // [models][tables]
  std::vector<std::vector<std::shared_ptr<RowSnapshot>>> rows_;
};

}  // namespace dslide::shard

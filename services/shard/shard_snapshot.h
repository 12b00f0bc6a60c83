// The state of a shard at one moment, written down while the shard goes on: what is not rows is
// copied at once, rows when somebody is about to change them (core/model/row_snapshot.h).

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/row_snapshot.h"
#include "services/shard/shard_core.h"
#include "services/shard/shard_image.h"

namespace dslide::shard {

class ShardSnapshot {
 public:
  // Whether one was taken and is not released.
  static bool Active(const ShardCore& core);

  // The core as it is now. On the thread that applies commands; one snapshot at a time. Copies take
  // at most a quarter of the tables' memory and kLeastCopiedBytes; then changes wait.
  static std::unique_ptr<ShardSnapshot> Take(uint64_t lsn, ShardCore& core);
  static constexpr int64_t kLeastCopiedBytes = int64_t{256} << 20;

  // Writes the image (shard_image.h) into `directory`, which must not exist. Once; on any thread,
  // while the core goes on. Errors: those of WriteImage().
  absl::StatusOr<ImageSize> Write(const std::string& directory);

  // For whoever writes it elsewhere, once and on any thread: what is not rows, and the rows of
  // model `number` of the parts.
  const ImageParts& parts() const { return parts_; }
  std::unique_ptr<RecordSource> Records(size_t number) const;

  // Nothing more will be written: changes wait for nothing. From any thread.
  void Abandon();

  // Takes the snapshot off the core's rows. On the thread that applies commands, after Write().
  void Release();

  // Memory of the copies now.
  int64_t copied_bytes() const;

 private:
  ShardSnapshot() = default;

  ImageParts parts_;
  std::vector<std::shared_ptr<ShardModel>> models_;
  // [models][tables]
  std::vector<std::vector<std::shared_ptr<RowSnapshot>>> rows_;
};

}  // namespace dslide::shard

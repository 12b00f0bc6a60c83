// The whole state of a shard at one moment, in memory: what services/shard/image/shard_image.h puts
// on a disk, of the same parts.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/shard/image/shard_snapshot.h"
#include "services/shard/state/shard_core.h"

namespace dslide::simulation {

struct MemoryImage {
  struct Table {
    int64_t applied_steps = 0;
    std::vector<std::string> records;  // by local row; "" where one of a table of records is absent
    uint64_t digest = 0;
  };
  struct Model {
    CreateModelCommand create;
    std::vector<Table> tables;
    std::string hashes;  // as services/shard/storage/hash_image.h has them
  };
  uint64_t lsn = 0;
  std::vector<Model> models;
  std::string core_state;

  // Of all bytes.
  uint32_t Checksum() const;
};

// Writes an image a few rows at a time, while the core goes on.
class ImageWriter {
 public:
  // Of a snapshot, which outlives it. without_copies: reads rows as they are when their turn comes
  // (a planted bug). base: where rows come from that have not changed since, or null.
  ImageWriter(const shard::ShardSnapshot& snapshot, bool without_copies,
              std::shared_ptr<const MemoryImage> base = nullptr);
  // Of a core that nobody changes meanwhile.
  ImageWriter(uint64_t lsn, const shard::ShardCore& core);

  // True when all is written.
  bool WriteSome(int64_t rows);
  // The snapshot was abandoned before all was written.
  bool lost() const;
  MemoryImage Take() { return std::move(image_); }
  bool has_base() const { return base_ != nullptr; }

 private:
  void Begin();

  const shard::ImageParts parts_;
  const bool without_copies_;
  const std::shared_ptr<const MemoryImage> base_;  // shared with the disk, which may forget it
  std::vector<std::vector<ChangedRows>> changed_;  // [models][tables], with a base
  MemoryImage image_;
  std::vector<std::unique_ptr<shard::RecordSource>> sources_;
  size_t model_ = 0, table_ = 0;
  int64_t row_ = 0;
};

// The core's state now, whose hash tables are settled.
MemoryImage ImageOf(uint64_t lsn, const shard::ShardCore& core);

// Restores it into a core without models. Errors: DataLoss.
absl::Status RestoreImage(const MemoryImage& image, shard::ShardCore& core);

}  // namespace dslide::simulation

// A shard's parts of cluster checkpoints on a simulated disk.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "services/shard/image/checkpoint_images.h"
#include "tests/simulation/bugs.h"
#include "tests/simulation/network.h"
#include "tests/simulation/nodes/memory_image.h"
#include "tests/simulation/trace.h"

namespace dslide::simulation {

// What outlives the process: the parts that are prepared.
struct PartDisk {
  std::map<uint64_t, std::shared_ptr<const MemoryImage>>
      parts;  // by checkpoint_id; shared with writers
  bool full = false;
};

// Writes over virtual time. Not thread-safe.
class PartStore final : public shard::CheckpointImages {
 public:
  // What is not owned outlives it.
  PartStore(NodePtr node, Bug bug, Trace& trace, PartDisk& disk)
      : node_(std::move(node)), bug_(bug), trace_(trace), disk_(disk) {}

  absl::Status Begin(uint64_t checkpoint_id, std::shared_ptr<shard::ShardSnapshot> snapshot,
                     std::function<void(std::shared_ptr<shard::ShardSnapshot>)> over) override;
  bool busy() const override { return writing_; }
  void Abandon(uint64_t checkpoint_id) override {
    if (writing_) abandoned_ = checkpoint_id;
  }
  shard::CheckpointProgress Progress(uint64_t checkpoint_id) const override;
  absl::StatusOr<shard::FileListSummary> Verify(uint64_t checkpoint_id) override;
  bool VerifiedLately(uint64_t, uint32_t) const override { return false; }
  absl::Status Load(uint64_t checkpoint_id, shard::ShardCore& core) const override;
  absl::StatusOr<int64_t> Retain(const std::vector<uint64_t>& checkpoint_ids) override;
  std::vector<uint64_t> List() const override;

 private:
  struct Writing {
    uint64_t checkpoint_id = 0;
    std::shared_ptr<shard::ShardSnapshot> snapshot;
    std::unique_ptr<ImageWriter> writer;
    std::function<void(std::shared_ptr<shard::ShardSnapshot>)> over;
  };
  void Write(const std::shared_ptr<Writing>& writing);
  // The image that this process wrote of the snapshot's base, or null.
  std::shared_ptr<const MemoryImage> BaseOf(const shard::ShardSnapshot& snapshot) const;

  const NodePtr node_;
  const Bug bug_;
  Trace& trace_;
  PartDisk& disk_;
  bool writing_ = false;
  uint64_t abandoned_ = 0;                                  // its part is not written any further
  std::map<uint64_t, shard::CheckpointProgress> progress_;  // of this process
};

}  // namespace dslide::simulation

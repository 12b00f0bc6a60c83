// Images of a shard on a simulated disk, which are written over virtual time.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "services/shard/image/labelled_images.h"
#include "tests/simulation/network.h"
#include "tests/simulation/nodes/memory_image.h"
#include "tests/simulation/trace.h"

namespace dslide::simulation {

// What outlives the process.
struct ImageDisk {
  std::map<std::string, std::shared_ptr<const MemoryImage>>
      images;         // by label; shared with writers
  bool full = false;  // for what is written in the background

  // Null when there is none.
  std::shared_ptr<const MemoryImage> Find(const std::string& label) const;
};

// Those of one process. Not thread-safe.
class MemoryImages final : public shard::LabelledImages {
 public:
  // What is not owned outlives it. without_copies: as ImageWriter has it.
  MemoryImages(NodePtr node, Trace& trace, ImageDisk& disk, bool without_copies = false)
      : node_(std::move(node)), trace_(trace), disk_(disk), without_copies_(without_copies) {}

  std::vector<std::string> Labels() const override;
  std::string PathOf(const std::string& label) const override { return "images/" + label; }
  absl::StatusOr<shard::LoadedImage> Load(const std::string& label,
                                          shard::ShardCore& core) const override;
  absl::StatusOr<shard::ImageSize> SizeOf(const std::string& label) const override;
  absl::StatusOr<shard::FileListSummary> Verify(const std::string& label) const override;
  absl::Status Write(const std::string& label, uint64_t lsn, const shard::ShardCore& core) override;
  void Begin(shard::ImageTask task) override;
  void Wait() override;
  absl::Status Remove(const std::string& label) override;

  // Nothing is sent here.
  std::string ArrivalPathOf(const std::string& label) const override { return PathOf(label); }
  absl::StatusOr<shard::FileListSummary> Adopt(const std::string&, uint32_t) override {
    return absl::UnimplementedError("Adopt is not simulated");
  }

 private:
  struct Writing {
    shard::ImageTask task;
    std::unique_ptr<ImageWriter> writer;
  };
  void WriteOn();
  std::unique_ptr<ImageWriter> WriterOf(const shard::ImageTask& task) const;
  absl::StatusOr<shard::ImageSize> End(Writing& writing);
  shard::ImageSize Publish(const std::string& label, MemoryImage image);

  const NodePtr node_;
  Trace& trace_;
  ImageDisk& disk_;
  const bool without_copies_;
  std::shared_ptr<Writing> writing_;  // shared with the event that writes on
};

}  // namespace dslide::simulation

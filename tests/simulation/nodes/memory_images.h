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

// Those of one process. Not thread-safe.
class MemoryImages final : public shard::LabelledImages {
 public:
  // disk: what outlives the process, by label. What is not owned outlives it.
  MemoryImages(NodePtr node, Trace& trace, std::map<std::string, MemoryImage>& disk)
      : node_(std::move(node)), trace_(trace), disk_(disk) {}

  std::vector<std::string> Labels() const override;
  std::string PathOf(const std::string& label) const override { return "images/" + label; }
  absl::StatusOr<uint64_t> Load(const std::string& label, shard::ShardCore& core) const override;
  absl::Status Write(const std::string& label, uint64_t lsn, const shard::ShardCore& core) override;
  void Begin(shard::ImageTask task) override;
  void Wait() override;
  absl::Status Remove(const std::string& label) override;

 private:
  struct Writing {
    shard::ImageTask task;
    ImageWriter writer;
  };
  void WriteOn();
  void Publish(const std::string& label, MemoryImage image);

  const NodePtr node_;
  Trace& trace_;
  std::map<std::string, MemoryImage>& disk_;
  std::shared_ptr<Writing> writing_;  // shared with the event that writes on
};

}  // namespace dslide::simulation

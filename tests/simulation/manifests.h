// The coordinator's manifests on a simulated disk.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "services/coordinator/manifest_store.h"
#include "tests/simulation/network.h"

namespace dslide::simulation {

// What outlives the process.
struct ManifestDisk {
  std::map<uint64_t, std::string> files;  // by epoch, as the product encodes them
  uint64_t lineage = 0;
};

// Not thread-safe.
class Manifests final : public coordinator::ManifestStore {
 public:
  // commit(manifest, write): calls write() if the process lives for long enough. False when it has
  // died. `disk` outlives it.
  using CommitHook =
      std::function<bool(const coordinator::Manifest&, const std::function<void()>&)>;
  Manifests(NodePtr node, ManifestDisk& disk, CommitHook commit)
      : node_(std::move(node)), disk_(disk), commit_(std::move(commit)) {}

  std::vector<uint64_t> List() const override;
  absl::StatusOr<coordinator::Manifest> Read(uint64_t epoch) const override;
  absl::Status Commit(const coordinator::Manifest& manifest) override;
  absl::Status Remove(uint64_t epoch) override;
  uint64_t Lineage() const override { return disk_.lineage; }
  absl::Status CommitLineage(uint64_t lineage) override;

 private:
  absl::Status CheckAlive() const;

  const NodePtr node_;
  ManifestDisk& disk_;
  const CommitHook commit_;
};

}  // namespace dslide::simulation

// The coordinator's manifests on a simulated disk.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "services/coordinator/checkpoints/manifest_store.h"
#include "services/coordinator/checkpoints/restore_mark.h"
#include "tests/simulation/network.h"

namespace dslide::simulation {

// What outlives the process.
struct ManifestDisk {
  std::map<uint64_t, std::string> files;  // by checkpoint_id, as the product encodes them
  std::map<uint64_t, std::string> damage;
  std::optional<uint64_t> restoring;  // the restore mark
  uint64_t restore_count = 0;
  std::vector<ClientId> evicted;
};

// Not thread-safe.
class MemoryMark final : public coordinator::RestoreMark {
 public:
  // `disk` outlives it.
  MemoryMark(NodePtr node, ManifestDisk& disk)
      : RestoreMark(disk.restoring), node_(std::move(node)), disk_(disk) {}

 private:
  absl::Status Write(std::optional<uint64_t> checkpoint_id) override;

  const NodePtr node_;
  ManifestDisk& disk_;
};

// Not thread-safe.
class Manifests final : public coordinator::ManifestStore {
 public:
  // commit(manifest, write): calls write() if the process lives for long enough. False when it has
  // died. `disk` outlives it.
  using CommitHook =
      std::function<bool(const coordinator::Manifest&, const std::function<void()>&)>;
  Manifests(NodePtr node, ManifestDisk& disk, CommitHook commit)
      : node_(node), disk_(disk), commit_(std::move(commit)), mark_(std::move(node), disk) {}

  std::vector<uint64_t> List() const override;
  absl::StatusOr<coordinator::Manifest> Read(uint64_t checkpoint_id) const override;
  absl::Status Commit(const coordinator::Manifest& manifest) override;
  absl::Status Remove(uint64_t checkpoint_id) override;
  absl::StatusOr<std::string> ReadText(uint64_t checkpoint_id) const override;
  std::string Damage(uint64_t checkpoint_id) const override;
  absl::Status MarkDamage(uint64_t checkpoint_id, const std::string& damage) override;
  uint64_t RestoreCount() const override { return disk_.restore_count; }
  absl::Status CommitRestoreCount(uint64_t restore_count) override;
  std::vector<ClientId> Evicted() const override { return disk_.evicted; }
  absl::Status KeepEvicted(const std::vector<ClientId>& clients) override;
  coordinator::RestoreMark& restore_mark() override { return mark_; }

 private:
  const NodePtr node_;
  ManifestDisk& disk_;
  const CommitHook commit_;
  MemoryMark mark_;
};

}  // namespace dslide::simulation

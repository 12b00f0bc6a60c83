#include "tests/simulation/nodes/manifests.h"

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"

namespace dslide::simulation {
namespace {

absl::Status CheckAlive(const NodePtr& node) {
  return node->alive() ? absl::OkStatus() : absl::UnavailableError("the coordinator has died");
}

}  // namespace

absl::Status MemoryMark::Write(std::optional<uint64_t> checkpoint_id) {
  RETURN_IF_ERROR(CheckAlive(node_));
  disk_.restoring = checkpoint_id;
  return absl::OkStatus();
}

std::vector<uint64_t> Manifests::List() const {
  std::vector<uint64_t> checkpoint_ids;
  for (auto file = disk_.files.rbegin(); file != disk_.files.rend(); ++file) {
    checkpoint_ids.push_back(file->first);
  }
  return checkpoint_ids;
}

absl::StatusOr<coordinator::Manifest> Manifests::Read(uint64_t checkpoint_id) const {
  const auto file = disk_.files.find(checkpoint_id);
  if (file != disk_.files.end()) return coordinator::DecodeManifest(file->second);
  return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                          absl::StrCat("there is no cluster checkpoint ", checkpoint_id));
}

absl::Status Manifests::Commit(const coordinator::Manifest& manifest) {
  RETURN_IF_ERROR(CheckAlive(node_));
  const bool committed = commit_(manifest, [&] {
    disk_.files[manifest.checkpoint_id] = coordinator::EncodeManifest(manifest);
  });
  return committed ? absl::OkStatus() : CheckAlive(node_);
}

absl::Status Manifests::Remove(uint64_t checkpoint_id) {
  RETURN_IF_ERROR(CheckAlive(node_));
  disk_.files.erase(checkpoint_id);
  disk_.damage.erase(checkpoint_id);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Manifests::ReadText(uint64_t checkpoint_id) const {
  RETURN_IF_ERROR(Read(checkpoint_id).status());
  return disk_.files.at(checkpoint_id);
}

std::string Manifests::Damage(uint64_t checkpoint_id) const {
  const auto damage = disk_.damage.find(checkpoint_id);
  return damage == disk_.damage.end() ? "" : damage->second;
}

absl::Status Manifests::MarkDamage(uint64_t checkpoint_id, const std::string& damage) {
  RETURN_IF_ERROR(CheckAlive(node_));
  if (damage.empty()) {
    disk_.damage.erase(checkpoint_id);
  } else {
    disk_.damage[checkpoint_id] = damage;
  }
  return absl::OkStatus();
}

absl::Status Manifests::KeepEvicted(const std::vector<ClientId>& clients) {
  RETURN_IF_ERROR(CheckAlive(node_));
  disk_.evicted = clients;
  return absl::OkStatus();
}

absl::Status Manifests::CommitRestoreCount(uint64_t restore_count) {
  RETURN_IF_ERROR(CheckAlive(node_));
  disk_.restore_count = restore_count;
  return absl::OkStatus();
}

}  // namespace dslide::simulation

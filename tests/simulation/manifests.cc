#include "tests/simulation/manifests.h"

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/wire/reason_words.h"

namespace dslide::simulation {
namespace {

absl::Status CheckAlive(const NodePtr& node) {
  return node->alive() ? absl::OkStatus() : absl::UnavailableError("the coordinator has died");
}

}  // namespace

absl::Status MemoryMark::Write(std::optional<uint64_t> epoch) {
  RETURN_IF_ERROR(CheckAlive(node_));
  disk_.restoring = epoch;
  return absl::OkStatus();
}

std::vector<uint64_t> Manifests::List() const {
  std::vector<uint64_t> epochs;
  for (auto file = disk_.files.rbegin(); file != disk_.files.rend(); ++file) {
    epochs.push_back(file->first);
  }
  return epochs;
}

absl::StatusOr<coordinator::Manifest> Manifests::Read(uint64_t epoch) const {
  const auto file = disk_.files.find(epoch);
  if (file != disk_.files.end()) return coordinator::DecodeManifest(file->second);
  return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                          absl::StrCat("there is no cluster checkpoint ", epoch));
}

absl::Status Manifests::Commit(const coordinator::Manifest& manifest) {
  RETURN_IF_ERROR(CheckAlive(node_));
  const bool committed = commit_(
      manifest, [&] { disk_.files[manifest.epoch] = coordinator::EncodeManifest(manifest); });
  return committed ? absl::OkStatus() : CheckAlive(node_);
}

absl::Status Manifests::Remove(uint64_t epoch) {
  RETURN_IF_ERROR(CheckAlive(node_));
  disk_.files.erase(epoch);
  disk_.damage.erase(epoch);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Manifests::ReadText(uint64_t epoch) const {
  RETURN_IF_ERROR(Read(epoch).status());
  return disk_.files.at(epoch);
}

std::string Manifests::Damage(uint64_t epoch) const {
  const auto damage = disk_.damage.find(epoch);
  return damage == disk_.damage.end() ? "" : damage->second;
}

absl::Status Manifests::MarkDamage(uint64_t epoch, const std::string& damage) {
  RETURN_IF_ERROR(CheckAlive(node_));
  if (damage.empty()) {
    disk_.damage.erase(epoch);
  } else {
    disk_.damage[epoch] = damage;
  }
  return absl::OkStatus();
}

absl::Status Manifests::KeepGivenUp(const std::vector<ClientId>& clients) {
  RETURN_IF_ERROR(CheckAlive(node_));
  disk_.given_up = clients;
  return absl::OkStatus();
}

absl::Status Manifests::CommitLineage(uint64_t lineage) {
  RETURN_IF_ERROR(CheckAlive(node_));
  disk_.lineage = lineage;
  return absl::OkStatus();
}

}  // namespace dslide::simulation

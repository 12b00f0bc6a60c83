#include "tests/simulation/manifests.h"

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/wire/reason_words.h"

namespace dslide::simulation {

absl::Status Manifests::CheckAlive() const {
  return node_->alive() ? absl::OkStatus() : absl::UnavailableError("the coordinator has died");
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
  RETURN_IF_ERROR(CheckAlive());
  const bool committed = commit_(
      manifest, [&] { disk_.files[manifest.epoch] = coordinator::EncodeManifest(manifest); });
  return committed ? absl::OkStatus() : CheckAlive();
}

absl::Status Manifests::Remove(uint64_t epoch) {
  RETURN_IF_ERROR(CheckAlive());
  disk_.files.erase(epoch);
  return absl::OkStatus();
}

absl::Status Manifests::CommitLineage(uint64_t lineage) {
  RETURN_IF_ERROR(CheckAlive());
  disk_.lineage = lineage;
  return absl::OkStatus();
}

}  // namespace dslide::simulation

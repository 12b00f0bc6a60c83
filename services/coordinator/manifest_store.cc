#include "services/coordinator/manifest_store.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/crc32c.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/wire/reason_words.h"
#include "services/common/durable_files.h"

namespace dslide::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "MANIFEST-";
constexpr char kLineage[] = "LINEAGE";

std::string EncodeLineage(uint64_t lineage) {
  const std::string text = absl::StrCat("lineage ", lineage, "\n");
  return absl::StrCat(text, absl::StrFormat("crc32c %08x\n", ExtendCrc32c(0, text)));
}

absl::StatusOr<uint64_t> ReadLineage(const fs::path& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return 0;
  RETURN_IF_ERROR(text.status());
  uint64_t lineage = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (absl::StartsWith(line, "lineage ")) {
      // What is not understood encodes differently.
      if (!absl::SimpleAtoi(line.substr(8), &lineage)) lineage = 0;
    }
  }
  if (EncodeLineage(lineage) == *text) return lineage;
  return absl::DataLossError(absl::StrCat(path.string(), " does not have its checksum"));
}

class DiskManifests final : public ManifestStore {
 public:
  DiskManifests(std::string directory, uint64_t lineage)
      : directory_(std::move(directory)), lineage_(lineage) {}

  std::vector<uint64_t> List() const override;
  absl::StatusOr<Manifest> Read(uint64_t epoch) const override;
  absl::Status Commit(const Manifest& manifest) override;
  absl::Status Remove(uint64_t epoch) override;
  uint64_t Lineage() const override { return lineage_; }
  absl::Status CommitLineage(uint64_t lineage) override;

 private:
  std::string PathOf(uint64_t epoch) const;

  const std::string directory_;
  uint64_t lineage_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ManifestStore>> ManifestStore::Open(const std::string& data_dir) {
  const fs::path directory = fs::path(data_dir) / "checkpoints";
  RETURN_IF_ERROR(MakeDirectory(directory));
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  ASSIGN_OR_RETURN(const uint64_t lineage, ReadLineage(directory / kLineage));
  return std::make_unique<DiskManifests>(directory.string(), lineage);
}

std::string DiskManifests::PathOf(uint64_t epoch) const {
  return absl::StrFormat("%s/%s%020d", directory_, kPrefix, epoch);
}

std::vector<uint64_t> DiskManifests::List() const {
  std::vector<uint64_t> epochs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t epoch = 0;
    // Whole names only: a file that is still being written has a longer one.
    if (absl::StartsWith(name, kPrefix) &&
        absl::SimpleAtoi(name.substr(sizeof(kPrefix) - 1), &epoch)) {
      epochs.push_back(epoch);
    }
  }
  std::sort(epochs.begin(), epochs.end(), std::greater<>());
  return epochs;
}

absl::StatusOr<Manifest> DiskManifests::Read(uint64_t epoch) const {
  const std::string path = PathOf(epoch);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    return StatusWithReason(
        absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
        absl::StrCat("there is no cluster checkpoint ", epoch, " in ", directory_));
  }
  RETURN_IF_ERROR(text.status());
  absl::StatusOr<Manifest> manifest = DecodeManifest(*text);
  if (!manifest.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", manifest.status().message()));
  }
  if (manifest->epoch != epoch) {
    return absl::DataLossError(
        absl::StrCat(path, " is of cluster checkpoint ", manifest->epoch, ": files were swapped"));
  }
  return manifest;
}

absl::Status DiskManifests::Commit(const Manifest& manifest) {
  return ReplaceFile(PathOf(manifest.epoch), EncodeManifest(manifest));
}

absl::Status DiskManifests::CommitLineage(uint64_t lineage) {
  RETURN_IF_ERROR(ReplaceFile(fs::path(directory_) / kLineage, EncodeLineage(lineage)));
  lineage_ = lineage;
  return absl::OkStatus();
}

absl::Status DiskManifests::Remove(uint64_t epoch) {
  RETURN_IF_ERROR(RemoveAll(PathOf(epoch)));
  return SyncDirectory(directory_);
}

}  // namespace dslide::coordinator

#include "services/coordinator/manifest_store.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/format_version.h"
#include "core/base/hex.h"
#include "core/base/reason.h"
#include "core/base/sealed_text.h"
#include "core/base/status_macros.h"
#include "core/wire/reason_words.h"
#include "services/common/durable_files.h"

namespace dslide::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr char kDirectory[] = "checkpoints";
constexpr char kPrefix[] = "MANIFEST-";
constexpr char kLineage[] = "LINEAGE";
// What LINEAGE begins with from format 2 on, and the version behind it; format 1 has no such line.
constexpr char kLineageWord[] = "dslide lineage ";
constexpr char kDamaged[] = "DAMAGED-";
constexpr char kDamageHead[] = "dslide damaged checkpoint 1";
constexpr char kGivenUp[] = "GIVEN_UP";
constexpr char kGivenUpWord[] = "dslide clients given up ";
constexpr int64_t kGivenUpFormat = 1;

std::string EncodeDamage(absl::string_view damage) {
  return SealText(absl::StrCat(kDamageHead, "\n", damage, "\n"));
}

std::string EncodeLineage(uint64_t lineage) {
  return SealText(absl::StrCat("lineage ", lineage, "\n"));
}

absl::StatusOr<uint64_t> ReadLineage(const fs::path& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return 0;
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckSealedFormat(path.string(), *text, kLineageWord, {}));
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

// A line in hexadecimal for each.
std::string EncodeGivenUp(const std::vector<ClientId>& clients) {
  std::string text = absl::StrCat(kGivenUpWord, kGivenUpFormat, "\n");
  for (const ClientId& id : clients) {
    const absl::string_view bytes(reinterpret_cast<const char*>(id.data()), id.size());
    absl::StrAppend(&text, absl::BytesToHexString(bytes), "\n");
  }
  return SealText(std::move(text));
}

absl::StatusOr<std::vector<ClientId>> ReadGivenUp(const fs::path& path) {
  std::vector<ClientId> clients;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return clients;
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckSealedFormat(path.string(), *text, kGivenUpWord,
                                    {.oldest = kGivenUpFormat, .newest = kGivenUpFormat}));
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    ClientId id{};
    const std::optional<std::string> bytes = BytesFromHex(line);
    if (!bytes.has_value() || bytes->size() != id.size()) continue;
    std::copy(bytes->begin(), bytes->end(), id.begin());
    clients.push_back(id);
  }
  // What is not understood encodes differently.
  if (EncodeGivenUp(clients) == *text) return clients;
  return absl::DataLossError(absl::StrCat(path.string(), " does not have its checksum"));
}

class DiskManifests final : public ManifestStore {
 public:
  DiskManifests(std::string directory, uint64_t lineage, std::vector<ClientId> given_up,
                std::unique_ptr<RestoreMark> restore_mark)
      : directory_(std::move(directory)),
        restore_mark_(std::move(restore_mark)),
        lineage_(lineage),
        given_up_(std::move(given_up)) {}

  std::vector<uint64_t> List() const override;
  absl::StatusOr<Manifest> Read(uint64_t epoch) const override;
  absl::Status Commit(const Manifest& manifest) override;
  absl::Status Remove(uint64_t epoch) override;
  absl::StatusOr<std::string> ReadText(uint64_t epoch) const override;
  std::string Damage(uint64_t epoch) const override;
  absl::Status MarkDamage(uint64_t epoch, const std::string& damage) override;
  uint64_t Lineage() const override { return lineage_; }
  absl::Status CommitLineage(uint64_t lineage) override;
  std::vector<ClientId> GivenUp() const override { return given_up_; }
  absl::Status KeepGivenUp(const std::vector<ClientId>& clients) override;
  RestoreMark& restore_mark() override { return *restore_mark_; }

 private:
  std::string PathOf(uint64_t epoch) const;
  std::string DamagePathOf(uint64_t epoch) const;

  const std::string directory_;
  const std::unique_ptr<RestoreMark> restore_mark_;
  uint64_t lineage_;
  std::vector<ClientId> given_up_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ManifestStore>> ManifestStore::Open(const std::string& data_dir) {
  const fs::path directory = fs::path(data_dir) / kDirectory;
  RETURN_IF_ERROR(MakeDirectory(directory));
  RETURN_IF_ERROR(SyncDirectory(data_dir));
  return OpenExisting(data_dir);
}

absl::StatusOr<std::unique_ptr<ManifestStore>> ManifestStore::OpenExisting(
    const std::string& data_dir) {
  const fs::path directory = fs::path(data_dir) / kDirectory;
  ASSIGN_OR_RETURN(const uint64_t lineage, ReadLineage(directory / kLineage));
  ASSIGN_OR_RETURN(std::vector<ClientId> given_up, ReadGivenUp(directory / kGivenUp));
  ASSIGN_OR_RETURN(std::unique_ptr<RestoreMark> mark, RestoreMark::Open(directory.string()));
  return std::make_unique<DiskManifests>(directory.string(), lineage, std::move(given_up),
                                         std::move(mark));
}

std::string DiskManifests::PathOf(uint64_t epoch) const {
  return absl::StrFormat("%s/%s%020d", directory_, kPrefix, epoch);
}

std::string DiskManifests::DamagePathOf(uint64_t epoch) const {
  return absl::StrFormat("%s/%s%020d", directory_, kDamaged, epoch);
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
    return absl::Status(manifest.status().code(),
                        absl::StrCat(path, ": ", manifest.status().message()));
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

absl::Status DiskManifests::KeepGivenUp(const std::vector<ClientId>& clients) {
  if (clients == given_up_) return absl::OkStatus();
  const fs::path path = fs::path(directory_) / kGivenUp;
  if (clients.empty()) {
    RETURN_IF_ERROR(RemoveAll(path));
    RETURN_IF_ERROR(SyncDirectory(directory_));
  } else {
    RETURN_IF_ERROR(ReplaceFile(path, EncodeGivenUp(clients)));
  }
  given_up_ = clients;
  return absl::OkStatus();
}

absl::Status DiskManifests::Remove(uint64_t epoch) {
  RETURN_IF_ERROR(RemoveAll(PathOf(epoch)));
  RETURN_IF_ERROR(RemoveAll(DamagePathOf(epoch)));
  return SyncDirectory(directory_);
}

absl::StatusOr<std::string> DiskManifests::ReadText(uint64_t epoch) const {
  RETURN_IF_ERROR(Read(epoch).status());
  return ReadFile(PathOf(epoch));
}

std::string DiskManifests::Damage(uint64_t epoch) const {
  const absl::StatusOr<std::string> text = ReadFile(DamagePathOf(epoch));
  if (absl::IsNotFound(text.status())) return "";
  const std::vector<std::string> lines = absl::StrSplit(text.ok() ? *text : "", '\n');
  // The mark itself is damaged: that there is one says enough.
  if (lines.size() < 2 || EncodeDamage(lines[1]) != *text) return "a verification failed";
  return lines[1];
}

absl::Status DiskManifests::MarkDamage(uint64_t epoch, const std::string& damage) {
  if (damage == Damage(epoch)) return absl::OkStatus();
  if (!damage.empty()) {
    const std::string line = absl::StrReplaceAll(damage, {{"\n", " "}});
    return ReplaceFile(DamagePathOf(epoch), EncodeDamage(line));
  }
  RETURN_IF_ERROR(RemoveAll(DamagePathOf(epoch)));
  return SyncDirectory(directory_);
}

}  // namespace dslide::coordinator

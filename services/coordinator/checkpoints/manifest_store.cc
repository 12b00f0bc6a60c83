#include "services/coordinator/checkpoints/manifest_store.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/hex.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/format_version.h"
#include "core/system/sealed_text.h"
#include "services/common/files/durable_files.h"
#include "services/common/files/sealed_number.h"

namespace dslide::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr char kDirectory[] = "checkpoints";
constexpr char kPrefix[] = "MANIFEST-";
constexpr char kRestoreCount[] = "RESTORE_COUNT";
constexpr char kRestoreCountWord[] = "dslide restore count";
constexpr char kDamaged[] = "DAMAGED-";
constexpr char kDamageHead[] = "dslide damaged checkpoint 1";
constexpr char kEvicted[] = "EVICTED";
constexpr char kEvictedWord[] = "dslide evicted clients ";
constexpr int64_t kEvictedFormat = 1;

std::string EncodeDamage(absl::string_view damage) {
  return SealText(absl::StrCat(kDamageHead, "\n", damage, "\n"));
}

// A line in hexadecimal for each.
std::string EncodeEvicted(const std::vector<ClientId>& clients) {
  std::string text = absl::StrCat(kEvictedWord, kEvictedFormat, "\n");
  for (const ClientId& id : clients) {
    absl::StrAppend(&text, ClientIdToHex(id), "\n");
  }
  return SealText(std::move(text));
}

absl::StatusOr<std::vector<ClientId>> ReadEvicted(const fs::path& path) {
  std::vector<ClientId> clients;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return clients;
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckSealedFormat(path.string(), *text, kEvictedWord,
                                    {.oldest = kEvictedFormat, .newest = kEvictedFormat}));
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::optional<ClientId> id = ClientIdFromHex(line);
    if (id.has_value()) clients.push_back(*id);
  }
  // What is not understood encodes differently.
  if (EncodeEvicted(clients) == *text) return clients;
  return absl::DataLossError(absl::StrCat(path.string(), " does not have its checksum"));
}

class DiskManifests final : public ManifestStore {
 public:
  DiskManifests(std::string directory, uint64_t restore_count, std::vector<ClientId> evicted,
                std::unique_ptr<RestoreMark> restore_mark)
      : directory_(std::move(directory)),
        restore_mark_(std::move(restore_mark)),
        restore_count_(restore_count),
        evicted_(std::move(evicted)) {}

  std::vector<uint64_t> List() const override;
  absl::StatusOr<Manifest> Read(uint64_t checkpoint_id) const override;
  absl::Status Commit(const Manifest& manifest) override;
  absl::Status Remove(uint64_t checkpoint_id) override;
  absl::StatusOr<std::string> ReadText(uint64_t checkpoint_id) const override;
  std::string Damage(uint64_t checkpoint_id) const override;
  absl::Status MarkDamage(uint64_t checkpoint_id, const std::string& damage) override;
  uint64_t RestoreCount() const override { return restore_count_; }
  absl::Status CommitRestoreCount(uint64_t restore_count) override;
  std::vector<ClientId> Evicted() const override { return evicted_; }
  absl::Status KeepEvicted(const std::vector<ClientId>& clients) override;
  RestoreMark& restore_mark() override { return *restore_mark_; }

 private:
  std::string PathOf(uint64_t checkpoint_id) const;
  std::string DamagePathOf(uint64_t checkpoint_id) const;

  const std::string directory_;
  const std::unique_ptr<RestoreMark> restore_mark_;
  uint64_t restore_count_;
  std::vector<ClientId> evicted_;
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
  ASSIGN_OR_RETURN(const std::optional<uint64_t> restore_count,
                   ReadSealedNumber(directory / kRestoreCount, kRestoreCountWord));
  ASSIGN_OR_RETURN(std::vector<ClientId> evicted, ReadEvicted(directory / kEvicted));
  ASSIGN_OR_RETURN(std::unique_ptr<RestoreMark> mark, RestoreMark::Open(directory.string()));
  return std::make_unique<DiskManifests>(directory.string(), restore_count.value_or(0),
                                         std::move(evicted), std::move(mark));
}

std::string DiskManifests::PathOf(uint64_t checkpoint_id) const {
  return absl::StrFormat("%s/%s%020d", directory_, kPrefix, checkpoint_id);
}

std::string DiskManifests::DamagePathOf(uint64_t checkpoint_id) const {
  return absl::StrFormat("%s/%s%020d", directory_, kDamaged, checkpoint_id);
}

std::vector<uint64_t> DiskManifests::List() const {
  std::vector<uint64_t> checkpoint_ids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t checkpoint_id = 0;
    // Whole names only: a file that is still being written has a longer one.
    if (absl::StartsWith(name, kPrefix) &&
        absl::SimpleAtoi(name.substr(sizeof(kPrefix) - 1), &checkpoint_id)) {
      checkpoint_ids.push_back(checkpoint_id);
    }
  }
  std::sort(checkpoint_ids.begin(), checkpoint_ids.end(), std::greater<>());
  return checkpoint_ids;
}

absl::StatusOr<Manifest> DiskManifests::Read(uint64_t checkpoint_id) const {
  const std::string path = PathOf(checkpoint_id);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    return StatusWithReason(
        absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
        absl::StrCat("there is no cluster checkpoint ", checkpoint_id, " in ", directory_));
  }
  RETURN_IF_ERROR(text.status());
  absl::StatusOr<Manifest> manifest = DecodeManifest(*text);
  if (!manifest.ok()) {
    return absl::Status(manifest.status().code(),
                        absl::StrCat(path, ": ", manifest.status().message()));
  }
  if (manifest->checkpoint_id != checkpoint_id) {
    return absl::DataLossError(absl::StrCat(path, " is of cluster checkpoint ",
                                            manifest->checkpoint_id, ": files were swapped"));
  }
  return manifest;
}

absl::Status DiskManifests::Commit(const Manifest& manifest) {
  return ReplaceFile(PathOf(manifest.checkpoint_id), EncodeManifest(manifest));
}

absl::Status DiskManifests::CommitRestoreCount(uint64_t restore_count) {
  RETURN_IF_ERROR(ReplaceFile(fs::path(directory_) / kRestoreCount,
                              SealNumber(kRestoreCountWord, restore_count)));
  restore_count_ = restore_count;
  return absl::OkStatus();
}

absl::Status DiskManifests::KeepEvicted(const std::vector<ClientId>& clients) {
  if (clients == evicted_) return absl::OkStatus();
  const fs::path path = fs::path(directory_) / kEvicted;
  if (clients.empty()) {
    RETURN_IF_ERROR(RemoveAll(path));
    RETURN_IF_ERROR(SyncDirectory(directory_));
  } else {
    RETURN_IF_ERROR(ReplaceFile(path, EncodeEvicted(clients)));
  }
  evicted_ = clients;
  return absl::OkStatus();
}

absl::Status DiskManifests::Remove(uint64_t checkpoint_id) {
  RETURN_IF_ERROR(RemoveAll(PathOf(checkpoint_id)));
  RETURN_IF_ERROR(RemoveAll(DamagePathOf(checkpoint_id)));
  return SyncDirectory(directory_);
}

absl::StatusOr<std::string> DiskManifests::ReadText(uint64_t checkpoint_id) const {
  RETURN_IF_ERROR(Read(checkpoint_id).status());
  return ReadFile(PathOf(checkpoint_id));
}

std::string DiskManifests::Damage(uint64_t checkpoint_id) const {
  const absl::StatusOr<std::string> text = ReadFile(DamagePathOf(checkpoint_id));
  if (absl::IsNotFound(text.status())) return "";
  const std::vector<std::string> lines = absl::StrSplit(text.ok() ? *text : "", '\n');
  // The mark itself is damaged: that there is one says enough.
  if (lines.size() < 2 || EncodeDamage(lines[1]) != *text) return "a verification failed";
  return lines[1];
}

absl::Status DiskManifests::MarkDamage(uint64_t checkpoint_id, const std::string& damage) {
  if (damage == Damage(checkpoint_id)) return absl::OkStatus();
  if (!damage.empty()) {
    const std::string line = absl::StrReplaceAll(damage, {{"\n", " "}});
    return ReplaceFile(DamagePathOf(checkpoint_id), EncodeDamage(line));
  }
  RETURN_IF_ERROR(RemoveAll(DamagePathOf(checkpoint_id)));
  return SyncDirectory(directory_);
}

}  // namespace dslide::coordinator

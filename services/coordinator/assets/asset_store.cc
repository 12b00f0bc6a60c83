#include "services/coordinator/assets/asset_store.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/crc32c.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"
#include "services/coordinator/membership/names.h"

namespace dslide::coordinator {
namespace {

constexpr size_t kMaxAssetName = 64;
constexpr size_t kShownName = 80;

// A piece of a file of the set in question, from an offset on.
using ReadAsset =
    absl::FunctionRef<absl::StatusOr<std::string>(const std::string& file, int64_t offset)>;

std::string Show(const AssetSetId& id) {
  return absl::StrFormat("assets %08x of model \"%s\"", id.checksum, id.model);
}

absl::Status BadRequest(absl::string_view reason, absl::string_view message) {
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason, message);
}

absl::Status Unknown(const AssetSetId& id, absl::string_view what) {
  return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownAssets,
                          absl::StrCat(Show(id), " ", what));
}

absl::Status CheckPlace(const std::string& file, int64_t offset) {
  if (file.size() > kMaxAssetName || absl::StrContains(file, '/') || !CheckListedPath(file).ok()) {
    return BadRequest(reason::kBadName,
                      absl::StrCat("name \"", EscapeForLog(file, kShownName), "\" must be 1 to ",
                                   kMaxAssetName, " letters, digits, '.', '_' and '-'"));
  }
  if (offset >= 0) return absl::OkStatus();
  return BadRequest(reason::kOutOfRange, absl::StrCat("offset is ", offset, ", must be 0 or more"));
}

absl::Status CheckRequest(const AssetSetId& id, const std::string& file, int64_t offset) {
  RETURN_IF_ERROR(CheckName("model", id.model));
  return CheckPlace(file, offset);
}

absl::Status Damaged(const AssetSetId& id, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(Show(id), ": ", what));
}

absl::StatusOr<FileList> ReadList(const AssetSetId& id, ReadAsset read) {
  std::string text;
  for (;;) {
    const absl::StatusOr<std::string> piece =
        read(kFileListName, static_cast<int64_t>(text.size()));
    if (absl::IsNotFound(piece.status())) return Damaged(id, "their list FILES is missing");
    RETURN_IF_ERROR(piece.status());
    if (piece->empty()) break;
    text += *piece;
  }
  ASSIGN_OR_RETURN(FileList list, DecodeFileList(absl::StrCat("FILES of ", Show(id)), text));
  if (list.checksum == id.checksum) return list;
  return Damaged(id, absl::StrFormat("their list FILES has the checksum %08x", list.checksum));
}

absl::Status CheckFile(const AssetSetId& id, const ListedFile& listed, ReadAsset read) {
  ListedFile found{.path = listed.path};
  for (;;) {
    const absl::StatusOr<std::string> piece = read(listed.path, found.bytes);
    if (absl::IsNotFound(piece.status())) return Damaged(id, listed.path + " is missing");
    RETURN_IF_ERROR(piece.status());
    if (piece->empty()) break;
    found.crc = ExtendCrc32c(found.crc, *piece);
    found.bytes += static_cast<int64_t>(piece->size());
  }
  if (found == listed) return absl::OkStatus();
  return Damaged(id,
                 absl::StrFormat("%s has %d bytes and CRC-32C %08x, was written with %d and "
                                 "%08x",
                                 listed.path, found.bytes, found.crc, listed.bytes, listed.crc));
}

absl::StatusOr<FileList> CheckAll(const AssetSetId& id, ReadAsset read) {
  ASSIGN_OR_RETURN(FileList list, ReadList(id, read));
  for (const ListedFile& file : list.files) RETURN_IF_ERROR(CheckFile(id, file, read));
  return list;
}

// "labels.txt is 12 bytes 0badcafe there, 13 bytes 8badf00d here" for each that differs.
std::string DescribeDifference(const FileList& there, const FileList& here) {
  const auto in = [](const FileList& list, const std::string& path) {
    for (const ListedFile& file : list.files) {
      if (file.path == path) return absl::StrFormat("%d bytes %08x", file.bytes, file.crc);
    }
    return std::string("absent");
  };
  std::set<std::string> names;
  for (const ListedFile& file : there.files) names.insert(file.path);
  for (const ListedFile& file : here.files) names.insert(file.path);
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    const std::string a = in(there, name);
    const std::string b = in(here, name);
    if (a != b) differences.push_back(absl::StrCat(name, " is ", a, " there, ", b, " here"));
  }
  return absl::StrJoin(differences, "; ");
}

}  // namespace

int64_t AssetStore::Upload::bytes() const {
  int64_t sum = 0;
  for (const auto& file : files) sum += file.second;
  return sum;
}

AssetStore::AssetStore(std::unique_ptr<AssetFolders> folders, const AssetLimits& limits)
    : limits_(limits), folders_(std::move(folders)) {}

absl::StatusOr<std::unique_ptr<AssetStore>> AssetStore::Open(std::unique_ptr<AssetFolders> folders,
                                                             const AssetLimits& limits) {
  ASSIGN_OR_RETURN(AssetFolders::Content content, folders->Load());
  std::unique_ptr<AssetStore> store(new AssetStore(std::move(folders), limits));
  const absl::MutexLock lock(&store->mu_);
  store->kept_ = std::move(content.kept);
  store->current_ = std::move(content.current);
  return store;
}

absl::Status AssetStore::Write(const AssetSetId& id, const std::string& file, int64_t offset,
                               absl::string_view piece) {
  RETURN_IF_ERROR(CheckRequest(id, file, offset));
  const auto size = static_cast<int64_t>(piece.size());
  if (size > kAssetPieceBytes) {
    return BadRequest(reason::kOverLimit, absl::StrCat("a piece has ", size, " bytes, at most ",
                                                       kAssetPieceBytes, " fit"));
  }
  const absl::MutexLock lock(&mu_);
  const auto known = uploads_.find(id);
  int64_t have = 0;
  int64_t all = 0;
  if (known != uploads_.end()) {
    all = known->second.bytes();
    const auto begun = known->second.files.find(file);
    if (begun != known->second.files.end()) have = begun->second;
    if (begun == known->second.files.end() &&
        static_cast<int64_t>(known->second.files.size()) > kMaxAssets) {
      return StatusWithReason(absl::StatusCode::kResourceExhausted, reason::kOverLimit,
                              absl::StrCat("a model has at most ", kMaxAssets, " assets"));
    }
  }
  if (offset > have) {
    return Unknown(id, absl::StrCat("have ", have, " bytes of ", file, " here, the piece is for ",
                                    offset, ": send the set from its beginning"));
  }
  if (all - have + std::max(have, offset + size) > limits_.max_set_bytes) {
    return StatusWithReason(
        absl::StatusCode::kResourceExhausted, reason::kOverLimit,
        absl::StrCat("the assets of model \"", id.model, "\" have more than the ",
                     limits_.max_set_bytes,
                     " bytes that a model may have: start the coordinator with a larger "
                     "--max-model-assets"));
  }
  if (known == uploads_.end() && uploads_.size() >= limits_.max_uploads) {
    DropUpload(std::min_element(uploads_.begin(), uploads_.end(), [](const auto& a, const auto& b) {
                 return a.second.touched < b.second.touched;
               })->first);
  }
  RETURN_IF_ERROR(folders_->Write(id, file, offset, piece));
  Upload& upload = uploads_[id];
  upload.files[file] = std::max(have, offset + size);
  upload.touched = ++calls_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> AssetStore::ReadPiece(Place place, const AssetSetId& id,
                                                  const std::string& file, int64_t offset) const {
  return folders_->Read(place, id, file, offset, kAssetPieceBytes);
}

absl::StatusOr<FileList> AssetStore::ListOf(Place place, const AssetSetId& id) const {
  return ReadList(id, [&](const std::string& file, int64_t offset) {
    mu_.AssertHeld();
    return ReadPiece(place, id, file, offset);
  });
}

absl::Status AssetStore::CheckSet(Place place, const AssetSetId& id) const {
  const absl::StatusOr<FileList> list = CheckAll(id, [&](const std::string& file, int64_t offset) {
    mu_.AssertHeld();
    return ReadPiece(place, id, file, offset);
  });
  RETURN_IF_ERROR(list.status());
  const auto arrived = uploads_.find(id);
  if (place == Place::kUpload && arrived != uploads_.end() &&
      arrived->second.files.size() != list->files.size() + 1) {
    return Damaged(id, "files have arrived that their list does not name");
  }
  return absl::OkStatus();
}

absl::Status AssetStore::Keep(const AssetSetId& id) {
  absl::Status present = absl::OkStatus();
  if (kept_.contains(id)) {
    present = CheckSet(Place::kKept, id);
    if (present.ok()) {
      DropUpload(id);
      return present;
    }
    if (!absl::IsDataLoss(present)) return present;
  }
  if (!uploads_.contains(id)) {
    return present.ok() ? Unknown(id, "have not arrived here: send them first") : present;
  }
  const absl::Status whole = CheckSet(Place::kUpload, id);
  if (absl::IsDataLoss(whole)) DropUpload(id);
  RETURN_IF_ERROR(whole);
  RETURN_IF_ERROR(folders_->Keep(id));
  uploads_.erase(id);
  kept_.insert(id);
  return absl::OkStatus();
}

absl::Status AssetStore::Differs(const AssetSetId& id, uint32_t present) const {
  const absl::StatusOr<FileList> there = ListOf(Place::kKept, {id.model, present});
  const absl::StatusOr<FileList> here =
      ListOf(kept_.contains(id) ? Place::kKept : Place::kUpload, id);
  const std::string files =
      there.ok() && here.ok() ? absl::StrCat(": ", DescribeDifference(*there, *here)) : "";
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kAssetsDiffer,
      absl::StrFormat("model \"%s\" has the assets %08x, not %08x%s; train with the data that it "
                      "was made of, give the model another name, or delete it first",
                      id.model, present, id.checksum, files));
}

absl::StatusOr<bool> AssetStore::Commit(const AssetSetId& id, std::optional<uint32_t> replaces) {
  RETURN_IF_ERROR(CheckName("model", id.model));
  const absl::MutexLock lock(&mu_);
  const auto present = current_.find(id.model);
  const bool is_new = present == current_.end() || present->second != id.checksum;
  if (is_new && present != current_.end() && present->second != replaces) {
    const absl::Status differs = Differs(id, present->second);
    DropUpload(id);
    return differs;
  }
  RETURN_IF_ERROR(Keep(id));
  if (!is_new) return false;
  RETURN_IF_ERROR(folders_->SetCurrent(id));
  current_[id.model] = id.checksum;
  RemoveUnused();
  LogInfo("a model has assets", {{"model", id.model}, {"checksum", id.checksum}});
  return true;
}

absl::StatusOr<FileList> AssetStore::Find(const std::string& model) const {
  const absl::MutexLock lock(&mu_);
  const auto current = current_.find(model);
  if (current == current_.end()) return FileList();
  return ListOf(Place::kKept, {model, current->second});
}

std::optional<uint32_t> AssetStore::Current(const std::string& model) const {
  const absl::MutexLock lock(&mu_);
  const auto current = current_.find(model);
  return current == current_.end() ? std::nullopt : std::optional(current->second);
}

absl::StatusOr<std::string> AssetStore::Read(const AssetSetId& id, const std::string& file,
                                             int64_t offset) const {
  RETURN_IF_ERROR(CheckRequest(id, file, offset));
  const absl::MutexLock lock(&mu_);
  if (!kept_.contains(id)) return Unknown(id, "are not here: they were replaced or removed");
  absl::StatusOr<std::string> piece = ReadPiece(Place::kKept, id, file, offset);
  if (absl::IsNotFound(piece.status())) return Unknown(id, absl::StrCat("have no ", file));
  return piece;
}

absl::Status AssetStore::Clear(const std::string& model) {
  if (!current_.contains(model)) return absl::OkStatus();
  RETURN_IF_ERROR(folders_->ClearCurrent(model));
  current_.erase(model);
  return absl::OkStatus();
}

absl::Status AssetStore::Remove(const std::string& model) {
  const absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(Clear(model));
  RemoveUnused();
  return absl::OkStatus();
}

std::vector<AssetSet> AssetStore::Capture() {
  const absl::MutexLock lock(&mu_);
  std::vector<AssetSet> sets;
  for (const auto& [model, checksum] : current_) {
    const AssetSetId id{model, checksum};
    const absl::StatusOr<FileList> list = ListOf(Place::kKept, id);
    if (!list.ok()) {
      // Rows without their names are worth more than no checkpoint.
      LogError("a cluster checkpoint goes without a model's assets",
               {{"model", model}, {"error", list.status().message()}});
      continue;
    }
    sets.push_back(
        {.id = id, .files = static_cast<int64_t>(list->files.size()), .bytes = list->bytes()});
    retained_.insert(id);
  }
  return sets;
}

absl::Status AssetStore::Verify(const AssetSet& set) const {
  // Piece by piece: others read and write meanwhile.
  return CheckAll(set.id, [&](const std::string& file,
                              int64_t offset) { return Read(set.id, file, offset); })
      .status();
}

absl::Status AssetStore::TakeIn(const AssetSet& set) {
  RETURN_IF_ERROR(CheckName("model", set.id.model));
  const absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(Keep(set.id));
  retained_.insert(set.id);  // until the manifest that names it is committed
  return absl::OkStatus();
}

absl::Status AssetStore::Replace(const std::vector<AssetSetId>& sets) {
  const absl::MutexLock lock(&mu_);
  std::map<std::string, uint32_t> wanted;
  for (const AssetSetId& id : sets) wanted[id.model] = id.checksum;
  std::vector<std::string> gone;
  for (const auto& [model, checksum] : current_) {
    if (!wanted.contains(model)) gone.push_back(model);
  }
  for (const std::string& model : gone) RETURN_IF_ERROR(Clear(model));
  for (const auto& [model, checksum] : wanted) {
    const AssetSetId id{model, checksum};
    if (IsCurrent(id)) continue;
    RETURN_IF_ERROR(folders_->SetCurrent(id));
    current_[model] = checksum;
  }
  RemoveUnused();
  return absl::OkStatus();
}

void AssetStore::Retain(const std::vector<AssetSetId>& sets) {
  const absl::MutexLock lock(&mu_);
  retained_ = {sets.begin(), sets.end()};
  RemoveUnused();
}

bool AssetStore::IsCurrent(const AssetSetId& id) const {
  const auto current = current_.find(id.model);
  return current != current_.end() && current->second == id.checksum;
}

void AssetStore::DropUpload(const AssetSetId& id) {
  const absl::Status removed = folders_->Remove(Place::kUpload, id);
  if (!removed.ok()) LogWarning("cannot remove an upload", {{"error", removed.message()}});
  uploads_.erase(id);
}

void AssetStore::RemoveUnused() {
  for (auto id = kept_.begin(); id != kept_.end();) {
    if (IsCurrent(*id) || retained_.contains(*id)) {
      ++id;
      continue;
    }
    // What is left over takes room, and harms nobody.
    const absl::Status removed = folders_->Remove(Place::kKept, *id);
    if (!removed.ok()) LogWarning("cannot remove assets", {{"error", removed.message()}});
    id = kept_.erase(id);
  }
}

}  // namespace dslide::coordinator

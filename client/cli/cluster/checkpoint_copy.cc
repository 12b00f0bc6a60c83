#include "client/cli/cluster/checkpoint_copy.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/cluster/model_assets.h"
#include "client/cli/console/text_file.h"
#include "core/base/crc32c.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/system/file_list.h"
#include "core/system/sealed_text.h"

namespace dslide::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kPartPrefix[] = "checkpoint-";
constexpr char kTemporary[] = ".tmp-";
constexpr char kManifest[] = "MANIFEST";
constexpr size_t kPieceBytes = 1 << 20;

std::string NameOf(uint64_t checkpoint_id) {
  return absl::StrFormat("%s%020d", kPartPrefix, checkpoint_id);
}
std::string PartPath(const std::string& copy, size_t shard) {
  return absl::StrCat(copy, "/shard-", shard);
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  // What is in it are the weights of models.
  if (!error) fs::permissions(path, fs::perms::owner_all, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("cannot make ", path, ": ", error.message()));
}

absl::Status InPart(size_t shard, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("shard ", shard, ": ", status.message()));
}

absl::StatusOr<CheckpointCopy> DecodeCopy(const std::string& path, std::string manifest) {
  const std::string name = absl::StrCat(path, "/", kManifest);
  const auto content = UnsealOpenText(manifest);
  if (!content.has_value()) {
    return absl::DataLossError(absl::StrCat(name, " does not have its checksum"));
  }
  const auto json =
      nlohmann::json::parse(content->begin(), content->end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("format", 0) != 1 || !json.contains("parts") ||
      !json["parts"].is_array()) {
    return absl::DataLossError(absl::StrCat(name, " is no manifest of format 1"));
  }
  CheckpointCopy copy{.path = path, .checkpoint_id = json.value("checkpoint_id", uint64_t{0})};
  for (const auto& part : json["parts"]) {
    if (!part.is_object() || !part.contains("files_checksum")) {
      return absl::DataLossError(absl::StrCat(name, " has a part without files_checksum"));
    }
    copy.files_checksum.push_back(part.value("files_checksum", uint32_t{0}));
  }
  for (const auto& set : json.value("assets", nlohmann::json::array())) {
    const CopiedAssets assets = {.model = set.value("model", ""),
                                 .checksum = set.value("checksum", uint32_t{0})};
    if (absl::StrContains(assets.model, '/') || !CheckListedPath(assets.model).ok()) {
      return absl::DataLossError(absl::StrCat(name, " has assets without the name of a model"));
    }
    copy.assets.push_back(assets);
  }
  copy.manifest = std::move(manifest);
  return copy;
}

std::string AssetsPath(const std::string& copy, const std::string& model) {
  return absl::StrCat(copy, "/assets/", model);
}

absl::Status CopyAssets(CoordinatorClient& coordinator, const CopiedAssets& assets,
                        const std::string& directory, CopySize& size) {
  ASSIGN_OR_RETURN(const FileList list, ReadAssetList(coordinator, assets.model, assets.checksum));
  ASSIGN_OR_RETURN(AssetFiles files, ReadAssets(coordinator, assets.model, list));
  files[kFileListName] = EncodeFileList(list.files);
  RETURN_IF_ERROR(MakeDirectories(directory));
  for (const auto& [name, bytes] : files) {
    ASSIGN_OR_RETURN(FileOutput output, FileOutput::Create(absl::StrCat(directory, "/", name)));
    RETURN_IF_ERROR(output.Append(bytes));
    RETURN_IF_ERROR(output.CommitDurably());
  }
  size.files += static_cast<int64_t>(list.files.size());
  size.bytes += list.bytes();
  return SyncFolder(directory);
}

// Reads all of a copied set.
absl::StatusOr<AssetFiles> ReadCopiedAssets(const std::string& copy, const CopiedAssets& assets) {
  const std::string directory = AssetsPath(copy, assets.model);
  const std::string list_path = absl::StrCat(directory, "/", kFileListName);
  const absl::StatusOr<std::string> text = ReadTextFile(list_path);
  if (!text.ok()) return absl::DataLossError(text.status().message());
  ASSIGN_OR_RETURN(const FileList list, DecodeFileList(list_path, *text));
  if (list.checksum != assets.checksum) {
    return absl::DataLossError(absl::StrCat(list_path, " is of other assets than the manifest's"));
  }
  AssetFiles files;
  for (const ListedFile& file : list.files) {
    RETURN_IF_ERROR(CheckListedFile(directory, file));
    std::ifstream input(absl::StrCat(directory, "/", file.path), std::ios::binary);
    files[file.path].assign(std::istreambuf_iterator<char>(input), {});
  }
  return files;
}

absl::StatusOr<FileList> DecodePartList(const CheckpointCopy& copy, size_t shard,
                                        const std::string& text) {
  const std::string path = absl::StrCat(PartPath(copy.path, shard), "/", kFileListName);
  ASSIGN_OR_RETURN(FileList list, DecodeFileList(path, text));
  if (list.checksum == copy.files_checksum[shard]) return list;
  return absl::DataLossError(
      absl::StrFormat("%s has checksum %08x, the manifest says %08x: it is of another checkpoint",
                      path, list.checksum, copy.files_checksum[shard]));
}

// Calls take(piece) until the file's end. Returns what was read.
absl::StatusOr<ListedFile> ReceiveFile(ShardClient& shard, uint64_t checkpoint_id,
                                       const std::string& path,
                                       const std::function<absl::Status(absl::string_view)>& take) {
  ListedFile file{.path = path};
  for (;;) {
    ASSIGN_OR_RETURN(const std::string piece,
                     shard.ReadCheckpointFile(checkpoint_id, path, file.bytes));
    if (piece.empty()) return file;
    file.crc = ExtendCrc32c(file.crc, piece);
    file.bytes += static_cast<int64_t>(piece.size());
    RETURN_IF_ERROR(take(piece));
  }
}

absl::Status CopyFile(ShardClient& shard, uint64_t checkpoint_id, const ListedFile& listed,
                      const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", listed.path);
  RETURN_IF_ERROR(MakeDirectories(fs::path(path).parent_path().string()));
  ASSIGN_OR_RETURN(FileOutput output, FileOutput::Create(path));
  ASSIGN_OR_RETURN(const ListedFile arrived,
                   ReceiveFile(shard, checkpoint_id, listed.path,
                               [&](absl::string_view piece) { return output.Append(piece); }));
  if (arrived != listed) {
    return absl::DataLossError(absl::StrFormat(
        "%s arrived with %d bytes and CRC-32C %08x, was written with %d and %08x: the file is "
        "damaged on the shard's disk (dslide checkpoint verify), or on its way",
        listed.path, arrived.bytes, arrived.crc, listed.bytes, listed.crc));
  }
  return output.CommitDurably();
}

absl::Status CopyPart(ShardClient& shard, const CheckpointCopy& copy, size_t number,
                      const std::string& directory, CopySize& size) {
  std::string text;
  RETURN_IF_ERROR(ReceiveFile(shard, copy.checkpoint_id, kFileListName,
                              [&](absl::string_view piece) -> absl::Status {
                                absl::StrAppend(&text, piece);
                                return absl::OkStatus();
                              })
                      .status());
  ASSIGN_OR_RETURN(const FileList list, DecodePartList(copy, number, text));
  RETURN_IF_ERROR(MakeDirectories(directory));
  for (const ListedFile& file : list.files) {
    RETURN_IF_ERROR(CopyFile(shard, copy.checkpoint_id, file, directory));
    ++size.files;
    size.bytes += file.bytes;
  }
  ASSIGN_OR_RETURN(FileOutput output,
                   FileOutput::Create(absl::StrCat(directory, "/", kFileListName)));
  RETURN_IF_ERROR(output.Append(text));
  return output.CommitDurably();
}

absl::StatusOr<CopySize> WriteCopy(const CopyPeers& peers, const CheckpointCopy& copy,
                                   const ClusterMap& map, const std::string& temporary) {
  CopySize size{.checkpoint_id = copy.checkpoint_id};
  for (size_t i = 0; i < copy.files_checksum.size(); ++i) {
    ASSIGN_OR_RETURN(const auto shard, peers.shard(map.shards[i]));
    const absl::Status copied = CopyPart(*shard, copy, i, PartPath(temporary, i), size);
    if (!copied.ok()) return InPart(i, copied);
  }
  for (const CopiedAssets& assets : copy.assets) {
    RETURN_IF_ERROR(
        CopyAssets(*peers.coordinator, assets, AssetsPath(temporary, assets.model), size));
  }
  ASSIGN_OR_RETURN(FileOutput output, FileOutput::Create(absl::StrCat(temporary, "/", kManifest)));
  RETURN_IF_ERROR(output.Append(copy.manifest));
  RETURN_IF_ERROR(output.CommitDurably());
  return size;
}

absl::Status CheckShards(const CheckpointCopy& copy, const ClusterMap& map) {
  if (copy.files_checksum.size() == map.shards.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cluster checkpoint ", copy.checkpoint_id, " is of ", copy.files_checksum.size(),
                   " shards, the cluster has ", map.shards.size()));
}

absl::Status SendFile(ShardClient& shard, uint64_t checkpoint_id, const std::string& directory,
                      const std::string& path) {
  std::ifstream file(absl::StrCat(directory, "/", path), std::ios::binary);
  if (!file) return absl::DataLossError(absl::StrCat(directory, "/", path, " cannot be read"));
  int64_t offset = 0;
  do {
    std::string piece(kPieceBytes, '\0');
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    piece.resize(static_cast<size_t>(file.gcount()));
    const auto sent = static_cast<int64_t>(piece.size());
    // Also an empty file is one.
    if (sent > 0 || offset == 0) {
      RETURN_IF_ERROR(shard.WriteCheckpointFile(checkpoint_id, path, offset, std::move(piece)));
    }
    offset += sent;
  } while (file);
  return absl::OkStatus();
}

absl::Status SendPart(ShardClient& shard, const CheckpointCopy& copy, size_t number,
                      CopySize& size) {
  const uint32_t checksum = copy.files_checksum[number];
  absl::Status present = shard.AdoptCheckpoint(copy.checkpoint_id, checksum);
  if (!absl::IsNotFound(present) && !absl::IsDataLoss(present)) return present;
  const std::string directory = PartPath(copy.path, number);
  ASSIGN_OR_RETURN(const std::string text,
                   ReadTextFile(absl::StrCat(directory, "/", kFileListName)));
  ASSIGN_OR_RETURN(const FileList list, DecodePartList(copy, number, text));
  for (const ListedFile& file : list.files) {
    RETURN_IF_ERROR(SendFile(shard, copy.checkpoint_id, directory, file.path));
    ++size.files;
    size.bytes += file.bytes;
  }
  RETURN_IF_ERROR(SendFile(shard, copy.checkpoint_id, directory, kFileListName));
  return shard.AdoptCheckpoint(copy.checkpoint_id, checksum);
}

// What has the name of a copy below a directory, the newest first.
std::vector<uint64_t> CopiesIn(const std::string& directory) {
  std::vector<uint64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    uint64_t checkpoint_id = 0;
    if (absl::StartsWith(name, kPartPrefix) &&
        absl::SimpleAtoi(name.substr(sizeof(kPartPrefix) - 1), &checkpoint_id)) {
      found.push_back(checkpoint_id);
    }
  }
  std::sort(found.begin(), found.end(), std::greater<>());
  return found;
}

}  // namespace

absl::StatusOr<CopySize> CopyCheckpoint(const CopyPeers& peers, uint64_t checkpoint_id,
                                        const std::string& directory) {
  ASSIGN_OR_RETURN(std::string manifest,
                   peers.coordinator->GetClusterCheckpointManifest(checkpoint_id));
  ASSIGN_OR_RETURN(CheckpointCopy copy, DecodeCopy(directory, std::move(manifest)));
  copy.path = absl::StrCat(directory, "/", NameOf(copy.checkpoint_id));
  std::error_code error;
  if (fs::exists(copy.path, error)) {
    const absl::StatusOr<CheckpointCopy> present = OpenCopy(copy.path, copy.checkpoint_id);
    const bool same = present.ok() && present->manifest == copy.manifest;
    if (same && VerifyCopy(*present).ok())
      return CopySize{.checkpoint_id = copy.checkpoint_id, .path = copy.path};
    return absl::AlreadyExistsError(absl::StrCat(copy.path,
                                                 same ? " is a damaged copy" : " is something else",
                                                 ": move it away, or choose another --to"));
  }
  ASSIGN_OR_RETURN(const ClusterMap map, peers.coordinator->GetClusterMap());
  RETURN_IF_ERROR(CheckShards(copy, map));
  const std::string temporary =
      absl::StrCat(directory, "/", kTemporary, NameOf(copy.checkpoint_id));
  fs::remove_all(temporary, error);
  RETURN_IF_ERROR(MakeDirectories(temporary));
  absl::StatusOr<CopySize> size = WriteCopy(peers, copy, map, temporary);
  if (!size.ok()) {
    fs::remove_all(temporary, error);
    return size;
  }
  for (size_t i = 0; i < copy.files_checksum.size(); ++i) {
    RETURN_IF_ERROR(SyncFolder(PartPath(temporary, i)));
  }
  if (!copy.assets.empty()) RETURN_IF_ERROR(SyncFolder(absl::StrCat(temporary, "/assets")));
  RETURN_IF_ERROR(SyncFolder(temporary));
  fs::rename(temporary, copy.path, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot rename ", temporary, " to ", copy.path, ": ", error.message()));
  }
  RETURN_IF_ERROR(SyncFolder(directory));
  size->path = copy.path;
  return size;
}

absl::StatusOr<CheckpointCopy> OpenCopy(const std::string& directory, uint64_t checkpoint_id) {
  std::string path = directory;
  std::error_code error;
  if (!fs::exists(absl::StrCat(path, "/", kManifest), error)) {
    const std::vector<uint64_t> copies = CopiesIn(directory);
    const uint64_t newest = copies.empty() ? 0 : copies.front();
    path = absl::StrCat(directory, "/", NameOf(checkpoint_id == 0 ? newest : checkpoint_id));
  }
  const absl::StatusOr<std::string> text = ReadTextFile(absl::StrCat(path, "/", kManifest));
  if (!text.ok()) {
    return absl::NotFoundError(
        absl::StrCat(directory, " holds no copy of ",
                     checkpoint_id == 0 ? std::string("a cluster checkpoint")
                                        : absl::StrCat("cluster checkpoint ", checkpoint_id),
                     ": make one with dslide checkpoint copy --to DIR"));
  }
  ASSIGN_OR_RETURN(CheckpointCopy copy, DecodeCopy(path, *text));
  if (checkpoint_id == 0 || checkpoint_id == copy.checkpoint_id) return copy;
  return absl::DataLossError(absl::StrCat(path, " is of cluster checkpoint ", copy.checkpoint_id,
                                          ", not ", checkpoint_id));
}

absl::StatusOr<std::vector<uint64_t>> PruneCopies(const std::string& directory, size_t keep,
                                                  uint64_t last) {
  std::vector<uint64_t> removed;
  size_t kept = 1;
  for (const uint64_t checkpoint_id : CopiesIn(directory)) {
    if (checkpoint_id == last) continue;
    const std::string path = absl::StrCat(directory, "/", NameOf(checkpoint_id));
    // What is none, or damaged, takes no place, and is not ours to remove.
    if (!OpenCopy(path, checkpoint_id).ok() || ++kept <= keep) continue;
    // Under a name that is no copy's: a half of one is never taken for a whole one.
    const std::string leaving = absl::StrCat(directory, "/", kTemporary, NameOf(checkpoint_id));
    std::error_code error;
    fs::remove_all(leaving, error);
    fs::rename(path, leaving, error);
    if (!error) fs::remove_all(leaving, error);
    if (error) {
      return absl::UnavailableError(absl::StrCat("cannot remove ", path, ": ", error.message()));
    }
    removed.push_back(checkpoint_id);
  }
  return removed;
}

absl::StatusOr<CopySize> VerifyCopy(const CheckpointCopy& copy) {
  CopySize size{.checkpoint_id = copy.checkpoint_id, .path = copy.path};
  for (size_t i = 0; i < copy.files_checksum.size(); ++i) {
    const std::string directory = PartPath(copy.path, i);
    const absl::StatusOr<std::string> text =
        ReadTextFile(absl::StrCat(directory, "/", kFileListName));
    if (!text.ok()) return absl::DataLossError(text.status().message());
    ASSIGN_OR_RETURN(const FileList list, DecodePartList(copy, i, *text));
    for (const ListedFile& file : list.files) {
      RETURN_IF_ERROR(CheckListedFile(directory, file));
      ++size.files;
      size.bytes += file.bytes;
    }
  }
  for (const CopiedAssets& assets : copy.assets) {
    ASSIGN_OR_RETURN(const AssetFiles files, ReadCopiedAssets(copy.path, assets));
    for (const auto& [name, bytes] : files) {
      ++size.files;
      size.bytes += static_cast<int64_t>(bytes.size());
    }
  }
  return size;
}

absl::StatusOr<CopySize> SendCopy(const CopyPeers& peers, const CheckpointCopy& copy) {
  ASSIGN_OR_RETURN(const ClusterMap map, peers.coordinator->GetClusterMap());
  RETURN_IF_ERROR(CheckShards(copy, map));
  CopySize size{.checkpoint_id = copy.checkpoint_id, .path = copy.path};
  for (size_t i = 0; i < copy.files_checksum.size(); ++i) {
    ASSIGN_OR_RETURN(const auto shard, peers.shard(map.shards[i]));
    RETURN_IF_ERROR(SendPart(*shard, copy, i, size));
  }
  for (const CopiedAssets& assets : copy.assets) {
    ASSIGN_OR_RETURN(const AssetFiles files, ReadCopiedAssets(copy.path, assets));
    RETURN_IF_ERROR(SendAssets(*peers.coordinator, assets.model, files));
  }
  RETURN_IF_ERROR(peers.coordinator->AdoptClusterCheckpoint(copy.manifest).status());
  return size;
}

}  // namespace dslide::cli

#include "client/cli/cluster/model_assets.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/crc32c.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"

namespace dslide::cli {
namespace {

constexpr size_t kAssetPiece = 1 << 20;
// A coordinator that was restarted has nothing of what was sent.
constexpr int kSendAttempts = 3;

absl::Status SendAsset(CoordinatorClient& coordinator, const ModelAssetPlace& first,
                       absl::string_view bytes) {
  ModelAssetPlace place = first;
  do {
    const absl::string_view piece = bytes.substr(static_cast<size_t>(place.offset), kAssetPiece);
    RETURN_IF_ERROR(coordinator.WriteModelAsset(place, std::string(piece)));
    place.offset += static_cast<int64_t>(piece.size());
  } while (place.offset < static_cast<int64_t>(bytes.size()));
  return absl::OkStatus();
}

}  // namespace

FileList ListOfAssets(const AssetFiles& files) {
  FileList list;
  for (const auto& [name, bytes] : files) {
    list.files.push_back(
        {.path = name, .bytes = static_cast<int64_t>(bytes.size()), .crc = ExtendCrc32c(0, bytes)});
  }
  // What was just encoded is whole.
  return *DecodeFileList(kFileListName, EncodeFileList(list.files));
}

std::string AssetChecksum(uint32_t checksum) { return absl::StrFormat("%08x", checksum); }

absl::StatusOr<AssetFiles> ReadAssets(CoordinatorClient& coordinator, const std::string& model,
                                      const FileList& list) {
  AssetFiles files;
  for (const ListedFile& listed : list.files) {
    std::string& bytes = files[listed.path];
    for (;;) {
      ASSIGN_OR_RETURN(const std::string piece,
                       coordinator.ReadModelAsset({.model = model,
                                                   .checksum = list.checksum,
                                                   .name = listed.path,
                                                   .offset = static_cast<int64_t>(bytes.size())}));
      if (piece.empty()) break;
      bytes += piece;
      if (static_cast<int64_t>(bytes.size()) > listed.bytes) break;
    }
    if (static_cast<int64_t>(bytes.size()) == listed.bytes &&
        ExtendCrc32c(0, bytes) == listed.crc) {
      continue;
    }
    return absl::DataLossError(absl::StrFormat(
        "%s of model \"%s\" arrived with %d bytes and CRC-32C %08x, was written with %d and %08x: "
        "it is damaged on the coordinator's disk; train with the same data again, which mends it, "
        "or restore a cluster checkpoint from a copy",
        listed.path, model, bytes.size(), ExtendCrc32c(0, bytes), listed.bytes, listed.crc));
  }
  return files;
}

absl::Status SendAssets(CoordinatorClient& coordinator, const std::string& model,
                        const AssetFiles& files) {
  const FileList list = ListOfAssets(files);
  ModelAssetPlace place = {.model = model, .checksum = list.checksum};
  for (const auto& [name, bytes] : files) {
    place.name = name;
    RETURN_IF_ERROR(SendAsset(coordinator, place, bytes));
  }
  place.name = kFileListName;
  return SendAsset(coordinator, place, EncodeFileList(list.files));
}

absl::Status PutAssets(CoordinatorClient& coordinator, const std::string& model,
                       const AssetFiles& files, std::optional<uint32_t> replaces) {
  const uint32_t checksum = ListOfAssets(files).checksum;
  for (int attempt = 1;; ++attempt) {
    absl::Status put = SendAssets(coordinator, model, files);
    if (put.ok()) put = coordinator.CommitModelAssets(model, checksum, replaces).status();
    if (ReasonOf(put) != reason::kUnknownAssets || attempt == kSendAttempts) return put;
  }
}

absl::StatusOr<FileList> ReadAssetList(CoordinatorClient& coordinator, const std::string& model,
                                       uint32_t checksum) {
  ModelAssetPlace place = {.model = model, .checksum = checksum, .name = kFileListName};
  std::string text;
  for (;;) {
    ASSIGN_OR_RETURN(const std::string piece, coordinator.ReadModelAsset(place));
    if (piece.empty()) break;
    text += piece;
    place.offset += static_cast<int64_t>(piece.size());
  }
  const std::string name = absl::StrCat("the list of the assets of model \"", model, "\"");
  ASSIGN_OR_RETURN(FileList list, DecodeFileList(name, text));
  if (list.checksum == checksum) return list;
  return absl::DataLossError(absl::StrCat(name, " has checksum ", AssetChecksum(list.checksum),
                                          ", not ", AssetChecksum(checksum)));
}

}  // namespace dslide::cli

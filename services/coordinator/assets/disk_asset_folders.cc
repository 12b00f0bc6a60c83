#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/files/system_error.h"
#include "services/common/files/durable_files.h"
#include "services/common/files/file_pieces.h"
#include "services/common/files/sealed_number.h"
#include "services/coordinator/assets/asset_folders.h"

namespace dslide::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChecksumDigits = 8;

std::optional<uint32_t> ChecksumOf(const std::string& digits) {
  uint32_t checksum = 0;
  if (digits.size() != kChecksumDigits || !absl::SimpleHexAtoi(digits, &checksum) ||
      AssetDigits(checksum) != digits) {
    return std::nullopt;
  }
  return checksum;
}

class DiskAssetFolders final : public AssetFolders {
 public:
  explicit DiskAssetFolders(const std::string& data_dir)
      : data_dir_(data_dir), root_(data_dir_ / kAssetsFolder) {}

  absl::StatusOr<Content> Load() override;
  absl::Status Write(const AssetSetId& id, const std::string& file, int64_t offset,
                     absl::string_view piece) override;
  absl::Status Keep(const AssetSetId& id) override;
  absl::StatusOr<std::string> Read(Place place, const AssetSetId& id, const std::string& file,
                                   int64_t offset, int64_t most) const override;
  absl::Status Remove(Place place, const AssetSetId& id) override;
  absl::Status SetCurrent(const AssetSetId& id) override;
  absl::Status ClearCurrent(const std::string& model) override;

 private:
  fs::path PathOf(Place place, const AssetSetId& id) const {
    return place == Place::kKept
               ? root_ / id.model / AssetDigits(id.checksum)
               : root_ / kUploadsFolder / absl::StrCat(id.model, ".", AssetDigits(id.checksum));
  }
  absl::Status LoadModel(const fs::path& directory, Content& content) const;

  const fs::path data_dir_;
  const fs::path root_;
};

absl::Status DiskAssetFolders::LoadModel(const fs::path& directory, Content& content) const {
  const std::string model = directory.filename().string();
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const auto checksum = ChecksumOf(entry.path().filename().string());
    if (checksum.has_value()) content.kept.insert({model, *checksum});
  }
  if (error) return SystemError("list", directory.string(), error.value());
  const std::string path = directory / kCurrentAssets;
  ASSIGN_OR_RETURN(const std::optional<uint64_t> current,
                   ReadSealedNumber(path, kCurrentAssetsWord));
  if (current.has_value()) content.current[model] = static_cast<uint32_t>(*current);
  return absl::OkStatus();
}

absl::StatusOr<AssetFolders::Content> DiskAssetFolders::Load() {
  RETURN_IF_ERROR(MakeDirectory(root_));
  RETURN_IF_ERROR(SyncDirectory(data_dir_));
  RETURN_IF_ERROR(RemoveAll(root_ / kUploadsFolder));
  Content content;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root_, error)) {
    RETURN_IF_ERROR(LoadModel(entry.path(), content));
  }
  if (error) return SystemError("list", root_.string(), error.value());
  return content;
}

absl::Status DiskAssetFolders::Write(const AssetSetId& id, const std::string& file, int64_t offset,
                                     absl::string_view piece) {
  const fs::path directory = PathOf(Place::kUpload, id);
  RETURN_IF_ERROR(MakeDirectory(directory));
  const std::string path = directory / file;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return SystemError("make", path, errno);
  const absl::Cleanup closed = [fd] { close(fd); };
  return WritePiece(fd, offset, piece, path);
}

absl::Status DiskAssetFolders::Keep(const AssetSetId& id) {
  const fs::path arrived = PathOf(Place::kUpload, id);
  const fs::path kept = PathOf(Place::kKept, id);
  RETURN_IF_ERROR(SyncTree(arrived));
  RETURN_IF_ERROR(MakeDirectory(kept.parent_path()));
  RETURN_IF_ERROR(SyncDirectory(root_));
  DSLIDE_FAILPOINT("coordinator.assets.synced");
  RETURN_IF_ERROR(RemoveAll(kept));
  RETURN_IF_ERROR(Rename(arrived, kept));
  DSLIDE_FAILPOINT("coordinator.assets.renamed");
  return SyncDirectory(kept.parent_path());
}

absl::StatusOr<std::string> DiskAssetFolders::Read(Place place, const AssetSetId& id,
                                                   const std::string& file, int64_t offset,
                                                   int64_t most) const {
  return ReadPiece(PathOf(place, id) / file, offset, most);
}

absl::Status DiskAssetFolders::Remove(Place place, const AssetSetId& id) {
  RETURN_IF_ERROR(RemoveAll(PathOf(place, id)));
  if (place == Place::kUpload) return absl::OkStatus();
  std::error_code ignored;  // others are in it
  fs::remove(root_ / id.model, ignored);
  return absl::OkStatus();
}

absl::Status DiskAssetFolders::SetCurrent(const AssetSetId& id) {
  RETURN_IF_ERROR(
      ReplaceFile(root_ / id.model / kCurrentAssets, SealNumber(kCurrentAssetsWord, id.checksum)));
  DSLIDE_FAILPOINT("coordinator.assets.current");
  return absl::OkStatus();
}

absl::Status DiskAssetFolders::ClearCurrent(const std::string& model) {
  RETURN_IF_ERROR(RemoveAll(root_ / model / kCurrentAssets));
  return SyncDirectory(root_ / model);
}

}  // namespace

std::string AssetDigits(uint32_t checksum) { return absl::StrFormat("%08x", checksum); }

std::unique_ptr<AssetFolders> AssetFolders::OnDisk(const std::string& data_dir) {
  return std::make_unique<DiskAssetFolders>(data_dir);
}

}  // namespace dslide::coordinator

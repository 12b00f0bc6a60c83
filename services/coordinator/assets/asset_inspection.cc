#include "services/coordinator/assets/asset_inspection.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/system/file_list.h"
#include "core/system/files/system_error.h"
#include "services/common/files/durable_files.h"
#include "services/common/files/sealed_number.h"
#include "services/coordinator/assets/asset_folders.h"

namespace dslide::coordinator {
namespace {

namespace fs = std::filesystem;

absl::Status InspectSet(const fs::path& directory) {
  const std::string path = directory / kFileListName;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return absl::DataLossError(text.status().message());
  RETURN_IF_ERROR(text.status());
  ASSIGN_OR_RETURN(const FileList list, DecodeFileList(path, *text));
  if (AssetDigits(list.checksum) != directory.filename().string()) {
    return absl::DataLossError(absl::StrCat(path, " is of another set of assets"));
  }
  for (const ListedFile& file : list.files) {
    RETURN_IF_ERROR(CheckListedFile(directory.string(), file));
  }
  return absl::OkStatus();
}

// Adds the number of sets.
absl::Status InspectModel(const fs::path& directory, int64_t& sets) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!entry.is_directory(error)) continue;
    RETURN_IF_ERROR(InspectSet(entry.path()));
    ++sets;
  }
  if (error) return SystemError("list", directory.string(), error.value());
  const std::string path = directory / kCurrentAssets;
  ASSIGN_OR_RETURN(const std::optional<uint64_t> current,
                   ReadSealedNumber(path, kCurrentAssetsWord));
  if (!current.has_value()) return absl::OkStatus();
  const fs::path own = directory / AssetDigits(static_cast<uint32_t>(*current));
  if (fs::is_directory(own, error)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(own.string(), " is missing, which is the model's set"));
}

}  // namespace

absl::StatusOr<int64_t> InspectAssets(const std::string& data_dir) {
  const fs::path root = fs::path(data_dir) / kAssetsFolder;
  std::error_code error;
  if (!fs::is_directory(root, error)) {
    return absl::NotFoundError(absl::StrCat(root.string(), " does not exist"));
  }
  int64_t sets = 0;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (entry.path().filename() == kUploadsFolder) continue;
    RETURN_IF_ERROR(InspectModel(entry.path(), sets));
  }
  if (error) return SystemError("list", root.string(), error.value());
  return sets;
}

}  // namespace dslide::coordinator

#include "services/shard/image/part_base.h"

#include <filesystem>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/files/system_error.h"
#include "services/common/files/durable_files.h"
#include "services/shard/image/file_list.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

// Only the databases of rows have directories of their own.
bool IsOfRows(const ListedFile& file) { return absl::StrContains(file.path, '/'); }

absl::Status CheckModels(const ImageHead& head, const ImageParts& parts) {
  bool same = head.models.size() == parts.models.size();
  for (size_t i = 0; same && i < head.models.size(); ++i) {
    same = head.models[i].name == parts.models[i].metadata.spec.name;
  }
  if (!same) return absl::FailedPreconditionError("it is of other models");
  if (head.increments >= kMaxIncrements) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has ", head.increments, " increments already"));
  }
  return absl::OkStatus();
}

absl::Status Link(const fs::path& from, const fs::path& to, const ListedFile& file) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error) return SystemError("link", from, error.value());
  const auto bytes = static_cast<int64_t>(fs::file_size(to, error));
  if (error) return SystemError("look at", to, error.value());
  if (bytes == file.bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(from.string(), " has ", bytes, " bytes, was written with ", file.bytes));
}

}  // namespace

absl::StatusOr<LinkedBase> LinkBase(const std::string& base, uint32_t files_checksum,
                                    const ImageParts& parts, const std::string& directory) {
  ASSIGN_OR_RETURN(const FileList list, ReadListedFiles(base));
  if (list.checksum != files_checksum) {
    return absl::FailedPreconditionError(
        absl::StrFormat("its list of files has checksum %08x, the manifest says %08x",
                        list.checksum, files_checksum));
  }
  ASSIGN_OR_RETURN(const ImageHead head, ReadImageHead(base));
  RETURN_IF_ERROR(CheckModels(head, parts));
  RETURN_IF_ERROR(MakeDirectory(directory));
  LinkedBase linked{.increments = head.increments, .files = {}};
  std::set<fs::path> folders;
  for (const ListedFile& file : list.files) {
    if (!IsOfRows(file)) continue;
    const fs::path target = fs::path(directory) / file.path;
    if (folders.insert(target.parent_path()).second) {
      RETURN_IF_ERROR(MakeDirectory(target.parent_path()));
    }
    RETURN_IF_ERROR(Link(fs::path(base) / file.path, target, file));
    linked.files.push_back(file);
  }
  for (const fs::path& folder : folders) RETURN_IF_ERROR(SyncDirectory(folder));
  DSLIDE_FAILPOINT("shard.part.linked");
  return linked;
}

}  // namespace dslide::shard

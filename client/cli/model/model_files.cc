#include "client/cli/model/model_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/system/file_list.h"

namespace dslide::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTexts[] = {"model.json",     "dslide.json",      "features.tsv",
                                  "labels.txt",     "label_counts.txt", "vocabulary.tsv",
                                  "tokenizer.json", "run.json"};

std::string ListPath(const std::string& directory) {
  return absl::StrCat(directory, "/", kFileListName);
}

absl::Status CheckListed(const std::string& directory, const std::string& text) {
  ASSIGN_OR_RETURN(const FileList list, DecodeFileList(ListPath(directory), text));
  for (const ListedFile& file : list.files) RETURN_IF_ERROR(CheckListedFile(directory, file));
  std::error_code error;
  for (const char* name : kTexts) {
    bool listed = false;
    for (const ListedFile& file : list.files) listed = listed || file.path == name;
    if (!listed && fs::exists(fs::path(directory) / name, error)) {
      return absl::DataLossError(
          absl::StrCat(directory, "/", name, " was not written with the others"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsModelFile(absl::string_view name) {
  for (const char* text : kTexts) {
    if (name == text) return true;
  }
  return name == kFileListName;
}

absl::Status SealModelFiles(const std::string& directory) {
  std::vector<ListedFile> files;
  for (const char* name : kTexts) {
    absl::StatusOr<ListedFile> file = SumFile(directory, name);
    if (absl::IsNotFound(file.status())) continue;
    RETURN_IF_ERROR(file.status());
    files.push_back(*std::move(file));
  }
  ASSIGN_OR_RETURN(FileOutput output, FileOutput::Create(ListPath(directory)));
  RETURN_IF_ERROR(output.Append(EncodeFileList(files)));
  return output.Commit();
}

absl::Status SyncModelFiles(const std::string& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = fd >= 0 && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0) close(fd);
    if (!synced) return LocalFileError("sync", entry.path().string(), why);
  }
  if (error) return LocalFileError("list", directory, error.value());
  return SyncFolder(directory);
}

absl::StatusOr<bool> CheckModelFiles(const std::string& directory) {
  errno = 0;
  std::ifstream file(ListPath(directory), std::ios::binary);
  if (!file && errno == ENOENT) return false;
  if (!file) return LocalFileError("read", ListPath(directory), errno);
  std::ostringstream text;
  text << file.rdbuf();
  const absl::Status checked = CheckListed(directory, text.str());
  if (checked.ok()) return true;
  // No cluster that does not answer.
  if (absl::IsUnavailable(checked)) return absl::InternalError(checked.message());
  if (!absl::IsDataLoss(checked)) return checked;
  return absl::DataLossError(absl::StrCat(
      "--model-dir ", directory, ": ", checked.message(),
      "; restore the directory's files from a copy, train again with --overwrite, or remove ",
      ListPath(directory), " to trust them as they are"));
}

}  // namespace dslide::cli

#include "services/shard/image/file_list.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"
#include "services/common/files/durable_files.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

fs::path ListPath(const std::string& directory) { return fs::path(directory) / kFileListName; }

absl::Status DamagedList(const fs::path& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path.string(), " ", what));
}

// Relative paths of all files but the list, sorted.
absl::StatusOr<std::vector<std::string>> FilesBelow(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(directory, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_directory(error)) continue;
    std::string relative = fs::relative(entry->path(), directory).string();
    if (relative != kFileListName) paths.push_back(std::move(relative));
  }
  if (error) return SystemError("list", directory, error.value());
  std::sort(paths.begin(), paths.end());
  return paths;
}

FileListSummary Summarise(const FileList& list) {
  return {.files = static_cast<int64_t>(list.files.size()),
          .bytes = list.bytes(),
          .checksum = list.checksum};
}

const ListedFile* Find(absl::Span<const ListedFile> files, absl::string_view path) {
  const auto* const found = std::find_if(files.begin(), files.end(),
                                         [&](const ListedFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : found;
}

// A file whose bytes are known, once it has the size that it must have.
absl::StatusOr<ListedFile> Known(const std::string& directory, const ListedFile& file) {
  const fs::path path = fs::path(directory) / file.path;
  std::error_code error;
  const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (error) return SystemError("look at", path, error.value());
  if (bytes == file.bytes) return file;
  return DamagedList(path, absl::StrCat("has ", bytes, " bytes, was written with ", file.bytes));
}

}  // namespace

absl::StatusOr<FileList> ReadListedFiles(const std::string& directory) {
  const fs::path path = ListPath(directory);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return DamagedList(path, "is missing");
  RETURN_IF_ERROR(text.status());
  return DecodeFileList(path.string(), *text);
}

absl::StatusOr<FileListSummary> WriteFileList(const std::string& directory,
                                              absl::Span<const ListedFile> known) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesBelow(directory));
  std::vector<ListedFile> files;
  for (const std::string& path : paths) {
    const ListedFile* const listed = Find(known, path);
    ASSIGN_OR_RETURN(ListedFile file,
                     listed == nullptr ? SumFile(directory, path) : Known(directory, *listed));
    files.push_back(std::move(file));
  }
  const std::string text = EncodeFileList(files);
  // What is written is what can be read.
  ASSIGN_OR_RETURN(const FileList list, DecodeFileList(ListPath(directory).string(), text));
  RETURN_IF_ERROR(ReplaceFile(ListPath(directory), text));
  RETURN_IF_ERROR(SyncDirectory(directory));
  return Summarise(list);
}

absl::StatusOr<FileListSummary> ReadFileList(const std::string& directory) {
  ASSIGN_OR_RETURN(const FileList listed, ReadListedFiles(directory));
  return Summarise(listed);
}

absl::StatusOr<FileListSummary> VerifyFileList(const std::string& directory,
                                               absl::Span<const ListedFile> read) {
  ASSIGN_OR_RETURN(const FileList listed, ReadListedFiles(directory));
  for (const ListedFile& file : listed.files) {
    const ListedFile* const found = Find(read, file.path);
    RETURN_IF_ERROR(found == nullptr ? CheckListedFile(directory, file)
                                     : CompareListedFile(directory, file, *found));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> present, FilesBelow(directory));
  for (const std::string& path : present) {
    if (Find(listed.files, path) == nullptr)
      return DamagedList(fs::path(directory) / path, "was not written with the others");
  }
  return Summarise(listed);
}

}  // namespace dslide::shard

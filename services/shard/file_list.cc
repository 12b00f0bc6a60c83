#include "services/shard/file_list.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/crc32c.h"
#include "core/base/status_macros.h"
#include "services/common/durable_files.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "FILES";
constexpr char kHead[] = "dslide files 1";
constexpr size_t kReadBytes = 1 << 20;

struct Listed {
  std::string path;  // relative
  int64_t bytes = 0;
  uint32_t crc = 0;
  friend bool operator==(const Listed&, const Listed&) = default;
};

fs::path ListPath(const std::string& directory) { return fs::path(directory) / kName; }

absl::Status Damaged(const fs::path& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path.string(), " ", what));
}

absl::StatusOr<Listed> ReadAndSum(const fs::path& path, const std::string& relative) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::UnavailableError(absl::StrCat("cannot open ", path.string()));
  Listed listed{.path = relative};
  std::vector<char> buffer(kReadBytes);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    const auto got = static_cast<size_t>(file.gcount());
    listed.crc = ExtendCrc32c(listed.crc, absl::string_view(buffer.data(), got));
    listed.bytes += static_cast<int64_t>(got);
  }
  if (file.bad()) return absl::UnavailableError(absl::StrCat("cannot read ", path.string()));
  return listed;
}

// Relative paths of all files but the list, sorted.
absl::StatusOr<std::vector<std::string>> FilesBelow(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(directory, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry->is_directory()) continue;
    std::string relative = fs::relative(entry->path(), directory).string();
    if (relative != kName) paths.push_back(std::move(relative));
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot list ", directory, ": ", error.message()));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string Encode(const std::vector<Listed>& files) {
  std::string text = absl::StrCat(kHead, "\n");
  for (const Listed& file : files) {
    absl::StrAppendFormat(&text, "%08x %d %s\n", file.crc, file.bytes, file.path);
  }
  return text;
}

FileListSummary Summarise(const std::vector<Listed>& files, uint32_t checksum) {
  FileListSummary summary{.files = static_cast<int64_t>(files.size()), .checksum = checksum};
  for (const Listed& file : files) summary.bytes += file.bytes;
  return summary;
}

struct Decoded {
  std::vector<Listed> files;
  uint32_t checksum = 0;
};

absl::StatusOr<Decoded> Read(const std::string& directory) {
  const fs::path path = ListPath(directory);
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) return Damaged(path, "is missing");
  RETURN_IF_ERROR(text.status());
  Decoded decoded;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    Listed file;
    if (words.size() != 3 || !absl::SimpleHexAtoi(words[0], &file.crc) ||
        !absl::SimpleAtoi(words[1], &file.bytes)) {
      continue;
    }
    file.path = std::string(words[2]);
    decoded.files.push_back(std::move(file));
  }
  // Whatever was not understood, or was changed, encodes differently.
  const std::string again = Encode(decoded.files);
  decoded.checksum = ExtendCrc32c(0, again);
  if (absl::StrCat(again, absl::StrFormat("crc32c %08x\n", decoded.checksum)) != *text) {
    return Damaged(path, "does not have its checksum");
  }
  return decoded;
}

}  // namespace

absl::StatusOr<FileListSummary> WriteFileList(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, FilesBelow(directory));
  std::vector<Listed> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(Listed file, ReadAndSum(fs::path(directory) / path, path));
    files.push_back(std::move(file));
  }
  const std::string text = Encode(files);
  const uint32_t checksum = ExtendCrc32c(0, text);
  RETURN_IF_ERROR(ReplaceFile(ListPath(directory),
                              absl::StrCat(text, absl::StrFormat("crc32c %08x\n", checksum))));
  RETURN_IF_ERROR(SyncDirectory(directory));
  return Summarise(files, checksum);
}

absl::StatusOr<FileListSummary> ReadFileList(const std::string& directory) {
  ASSIGN_OR_RETURN(const Decoded listed, Read(directory));
  return Summarise(listed.files, listed.checksum);
}

absl::StatusOr<FileListSummary> VerifyFileList(const std::string& directory) {
  ASSIGN_OR_RETURN(const Decoded listed, Read(directory));
  ASSIGN_OR_RETURN(const std::vector<std::string> present, FilesBelow(directory));
  for (const Listed& file : listed.files) {
    const fs::path path = fs::path(directory) / file.path;
    if (!std::binary_search(present.begin(), present.end(), file.path)) {
      return Damaged(path, "is missing");
    }
    ASSIGN_OR_RETURN(const Listed found, ReadAndSum(path, file.path));
    if (found.bytes != file.bytes) {
      return Damaged(path,
                     absl::StrCat("has ", found.bytes, " bytes, was written with ", file.bytes));
    }
    if (found != file) return Damaged(path, "does not have its checksum");
  }
  if (present.size() != listed.files.size()) {
    for (const std::string& path : present) {
      const bool known = std::any_of(listed.files.begin(), listed.files.end(),
                                     [&](const Listed& file) { return file.path == path; });
      if (!known) return Damaged(fs::path(directory) / path, "was not written with the others");
    }
  }
  return Summarise(listed.files, listed.checksum);
}

}  // namespace dslide::shard

#include "core/system/file_list.h"

#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/crc32c.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"
#include "core/system/format_version.h"
#include "core/system/log.h"
#include "core/system/sealed_text.h"

namespace dslide {
namespace {

// The version is behind it.
constexpr char kHeadWord[] = "dslide files ";
constexpr int64_t kFormat = 1;
constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kShownPath = 100;

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, " ", what));
}

std::string InDirectory(const std::string& directory, const std::string& path) {
  return absl::StrCat(directory, "/", path);
}

bool IsPlainPart(absl::string_view part) {
  if (part.empty() || part == "." || part == "..") return false;
  for (const char c : part) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') {
      return false;
    }
  }
  return true;
}

}  // namespace

int64_t FileList::bytes() const {
  int64_t sum = 0;
  for (const ListedFile& file : files) sum += file.bytes;
  return sum;
}

std::string EncodeFileList(const std::vector<ListedFile>& files) {
  std::string text = absl::StrCat(kHeadWord, kFormat, "\n");
  for (const ListedFile& file : files) {
    absl::StrAppendFormat(&text, "%08x %d %s\n", file.crc, file.bytes, file.path);
  }
  return SealText(std::move(text));
}

absl::StatusOr<FileList> DecodeFileList(const std::string& path, absl::string_view text) {
  const auto content = UnsealText(text);
  if (!content.has_value()) return Damaged(path, "does not have its checksum");
  RETURN_IF_ERROR(CheckSealedFormat(path, text, kHeadWord, {.oldest = kFormat, .newest = kFormat}));
  FileList list;
  for (const absl::string_view line : absl::StrSplit(*content, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    ListedFile file;
    if (words.size() != 3 || !absl::SimpleHexAtoi(words[0], &file.crc) ||
        !absl::SimpleAtoi(words[1], &file.bytes)) {
      continue;
    }
    file.path = std::string(words[2]);
    if (const absl::Status inside = CheckListedPath(file.path); !inside.ok()) {
      return Damaged(path, absl::StrCat("is refused: ", inside.message()));
    }
    list.files.push_back(std::move(file));
  }
  // Whatever was not understood encodes differently.
  if (EncodeFileList(list.files) != text) return Damaged(path, "is no list of files");
  list.checksum = ExtendCrc32c(0, *content);
  return list;
}

absl::Status CheckListedPath(absl::string_view path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (!IsPlainPart(part)) {
      return absl::InvalidArgumentError(absl::StrCat("\"", EscapeForLog(path, kShownPath),
                                                     "\" is no path of a file below a directory"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ListedFile> SumFile(const std::string& directory, const std::string& path) {
  const std::string full = InDirectory(directory, path);
  errno = 0;
  std::ifstream file(full, std::ios::binary);
  if (!file) {
    const absl::Status error = SystemError("open", full, errno);
    return errno == ENOENT || errno == ENOTDIR ? absl::NotFoundError(error.message()) : error;
  }
  ListedFile listed{.path = path};
  std::vector<char> buffer(kReadBytes);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    const auto got = static_cast<size_t>(file.gcount());
    listed.crc = ExtendCrc32c(listed.crc, absl::string_view(buffer.data(), got));
    listed.bytes += static_cast<int64_t>(got);
  }
  if (file.bad()) return SystemError("read", full, errno);
  return listed;
}

absl::Status CheckListedFile(const std::string& directory, const ListedFile& file) {
  const absl::StatusOr<ListedFile> found = SumFile(directory, file.path);
  if (absl::IsNotFound(found.status())) {
    return Damaged(InDirectory(directory, file.path), "is missing");
  }
  RETURN_IF_ERROR(found.status());
  return CompareListedFile(directory, file, *found);
}

absl::Status CompareListedFile(const std::string& directory, const ListedFile& file,
                               const ListedFile& found) {
  const std::string full = InDirectory(directory, file.path);
  if (found.bytes != file.bytes) {
    return Damaged(full,
                   absl::StrCat("has ", found.bytes, " bytes, was written with ", file.bytes));
  }
  if (found != file) return Damaged(full, "does not have its checksum");
  return absl::OkStatus();
}

}  // namespace dslide

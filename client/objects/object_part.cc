#include "client/objects/object_part.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// Of an object whose size nobody says, room is made for so much at a time.
constexpr int64_t kUnknownStep = int64_t{64} << 20;

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

// What was written before it is on the disk only if the machine has not stopped since.
std::string BootId() { return ContentOf("/proc/sys/kernel/random/boot_id"); }

struct Note {
  ObjectVersion version = {};
  std::string boot = {};
};

std::optional<Note> ReadNote(const std::string& path) {
  const auto json = nlohmann::json::parse(ContentOf(path), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  try {
    return Note{.version = {.etag = json.at("etag"),
                            .last_modified = json.at("last_modified"),
                            .size = json.at("size")},
                .boot = json.at("boot")};
  } catch (const nlohmann::json::exception&) {  // of another hand: as good as none
    return std::nullopt;
  }
}

absl::Status WriteNote(const std::string& path, const ObjectVersion& version) {
  const nlohmann::json json = {{"etag", version.etag},
                               {"last_modified", version.last_modified},
                               {"size", version.size},
                               {"boot", BootId()}};
  // Bytes of a header need not be UTF-8.
  const std::string text = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::ofstream file(path, std::ios::trunc);
  file << text << '\n';
  file.close();
  return file ? absl::OkStatus() : CacheError("write", path, errno);
}

int64_t SizeOf(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? info.st_size : -1;
}

absl::Status Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : CacheError("write", to, errno);
}

}  // namespace

absl::Status CacheError(absl::string_view what, const std::string& path, int error) {
  absl::Status judged = SystemError(what, path, error);
  if (!absl::IsUnavailable(judged)) return judged;
  return absl::InvalidArgumentError(
      absl::StrCat(judged.message(), "; choose another folder by DSLIDE_DATA_CACHE"));
}

ObjectPart::ObjectPart(const std::string& folder, const std::string& name, Hooks hooks)
    : path_(absl::StrCat(folder, "/", name)),
      version_path_(absl::StrCat(folder, "/.", name, ".version")),
      part_path_(absl::StrCat(folder, "/.", name, ".part")),
      part_version_path_(absl::StrCat(folder, "/.", name, ".part.version")),
      hooks_(std::move(hooks)) {
  const std::optional<Note> part = ReadNote(part_version_path_);
  const int64_t part_bytes = SizeOf(part_path_);
  if (part.has_value() && part->boot == BootId() && part_bytes > 0 &&
      (part->version.size < 0 || part_bytes <= part->version.size)) {
    version_ = part->version;
    bytes_ = part_bytes;
    is_part_ = true;
    return;
  }
  const std::optional<Note> whole = ReadNote(version_path_);
  if (whole.has_value() && SizeOf(path_) == whole->version.size) {
    version_ = whole->version;
    bytes_ = version_.size;
  }
}

ObjectPart::~ObjectPart() {
  if (fd_ >= 0) close(fd_);
}

absl::Status ObjectPart::Begin(const ObjectVersion& version, int64_t offset) {
  RETURN_IF_ERROR(hooks_.make_room(std::max<int64_t>(version.size, 0)));
  if (fd_ < 0) {
    fd_ = open(part_path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) return CacheError("write", part_path_, errno);
  }
  // In this order, for a process may die between them: no bytes under a version of others.
  if (offset == 0) {
    unlink(part_version_path_.c_str());
    if (ftruncate(fd_, 0) != 0) return CacheError("write", part_path_, errno);
    RETURN_IF_ERROR(WriteNote(part_version_path_, version));
  } else if (ftruncate(fd_, offset) != 0) {
    return CacheError("write", part_path_, errno);
  }
  if (lseek(fd_, offset, SEEK_SET) < 0) return CacheError("write", part_path_, errno);
  version_ = version;
  bytes_ = offset;
  is_part_ = true;
  return absl::OkStatus();
}

absl::Status ObjectPart::Append(absl::string_view bytes) {
  const int64_t end = bytes_ + static_cast<int64_t>(bytes.size());
  if (version_.size < 0 && bytes_ / kUnknownStep != end / kUnknownStep) {
    RETURN_IF_ERROR(hooks_.make_room(end));
  }
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return CacheError("write", part_path_, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    bytes_ += written;
  }
  hooks_.progress(bytes_, version_.size);
  return absl::OkStatus();
}

absl::Status ObjectPart::Publish() {
  if (!is_part_) return absl::OkStatus();
  if (fd_ < 0) {  // whole already, and nobody lived to say so
    fd_ = open(part_path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) return CacheError("write", part_path_, errno);
  }
  if (fsync(fd_) != 0) return CacheError("write", part_path_, errno);
  version_.size = bytes_;
  RETURN_IF_ERROR(WriteNote(part_version_path_, version_));
  unlink(version_path_.c_str());  // of the file before
  RETURN_IF_ERROR(Rename(part_path_, path_));
  RETURN_IF_ERROR(Rename(part_version_path_, version_path_));
  is_part_ = false;
  return absl::OkStatus();
}

void ObjectPart::Remove() {
  for (const std::string& path : {version_path_, part_version_path_, part_path_, path_}) {
    unlink(path.c_str());
  }
}

int64_t ObjectBytesIn(const std::string& folder, absl::string_view but_part_of) {
  const std::string left_out = absl::StrCat(folder, "/.", but_part_of, ".part");
  int64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string path = entry.path().string();
    if (!but_part_of.empty() && absl::StartsWith(path, left_out)) continue;
    if (!absl::EndsWith(path, ".version")) {
      bytes += std::max<int64_t>(SizeOf(path), 0);
      continue;
    }
    // Of a part, what is still to come.
    if (!absl::EndsWith(path, ".part.version")) continue;
    const std::optional<Note> note = ReadNote(path);
    const std::string part = path.substr(0, path.size() - std::string(".version").size());
    if (note.has_value()) {
      bytes += std::max<int64_t>(note->version.size - std::max<int64_t>(SizeOf(part), 0), 0);
    }
  }
  return bytes;
}

}  // namespace dslide

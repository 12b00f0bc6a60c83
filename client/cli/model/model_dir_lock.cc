#include "client/cli/model/model_dir_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"

namespace dslide::cli {
namespace {

namespace fs = std::filesystem;

// Longer than a number and the longest name of a host.
constexpr size_t kMaxHolderBytes = 256;
// Each means that somebody else came and went meanwhile.
constexpr int kMaxAttempts = 100;

std::string LockPath(const std::string& path) { return absl::StrCat(path, "/", kModelDirLock); }

std::string ThisProcess() {
  char host[kMaxHolderBytes] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return absl::StrCat("process ", getpid(), " on host ", host);
}

std::string ReadHolder(int file) {
  char text[kMaxHolderBytes];
  const ssize_t got = pread(file, text, sizeof(text), 0);
  return got > 0 ? std::string(text, static_cast<size_t>(got)) : "another process";
}

// Whether the name still means the open file: who ended before removes it.
bool IsStillThere(int file, const std::string& path) {
  struct stat open_file;
  struct stat named;
  return fstat(file, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

// The outermost part of the path that is missing; "": none is.
std::string OutermostMissing(const fs::path& path) {
  std::error_code error;
  fs::path missing;
  for (fs::path part = path; !part.empty() && !fs::exists(part, error); part = part.parent_path()) {
    missing = part;
  }
  return missing.string();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelDirLock>> ModelDirLock::Take(const std::string& path) {
  std::unique_ptr<ModelDirLock> lock(new ModelDirLock(path));
  const fs::path directory = fs::path(path).lexically_normal();
  lock->made_ = OutermostMissing(directory.has_filename() ? directory : directory.parent_path());
  const std::string file = LockPath(path);
  for (int attempt = 1;; ++attempt) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error == std::errc::not_a_directory || error == std::errc::file_exists) {
      return absl::InvalidArgumentError(
          absl::StrCat("--model-dir ", path, ": is a file, or lies in one; name a directory"));
    }
    if (error) return LocalFileError("make --model-dir", path, error.value());
    lock->file_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    // Who held the lock may just have removed the directory that he had made.
    if (lock->file_ < 0 && errno == ENOENT && attempt < kMaxAttempts) continue;
    if (lock->file_ < 0) return LocalFileError("write to --model-dir: open", file, errno);
    if (flock(lock->file_, LOCK_EX | LOCK_NB) != 0) {
      const int why = errno;
      const std::string holder = ReadHolder(lock->file_);
      close(std::exchange(lock->file_, -1));
      if (why != EWOULDBLOCK) return LocalFileError("lock", file, why);
      return absl::InvalidArgumentError(
          absl::StrCat("--model-dir ", path, ": is being written by ", holder,
                       ": wait for its end, or name another directory"));
    }
    if (IsStillThere(lock->file_, file)) break;
    close(std::exchange(lock->file_, -1));
  }
  const std::string holder = ThisProcess();
  const bool written =
      ftruncate(lock->file_, 0) == 0 &&
      pwrite(lock->file_, holder.data(), holder.size(), 0) == static_cast<ssize_t>(holder.size());
  if (!written) return LocalFileError("write", file, errno);
  return lock;
}

ModelDirLock::~ModelDirLock() {
  if (file_ >= 0) {
    // While it is held: afterwards it may be another's.
    unlink(LockPath(path_).c_str());
    close(file_);
  }
  if (made_.empty()) return;
  std::error_code error;
  const fs::path outermost = made_;
  for (fs::path part = fs::path(path_).lexically_normal(); !error; part = part.parent_path()) {
    if (!part.has_filename()) continue;
    if (!fs::remove(part, error) || part == outermost) return;
  }
}

std::string ModelDirHolder(const std::string& path) {
  const int file = open(LockPath(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string holder = ReadHolder(file);
  close(file);
  return holder;
}

}  // namespace dslide::cli

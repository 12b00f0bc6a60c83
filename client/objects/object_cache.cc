#include "client/objects/object_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/objects/object_part.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "core/system/content_hash.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr char kVariable[] = "DSLIDE_DATA_CACHE";
constexpr char kLockFile[] = "LOCK";
constexpr absl::Duration kLockCheck = absl::Milliseconds(100);
constexpr absl::Duration kNoteAfter = absl::Seconds(3);

// A lock of the file system that ends with the process.
class FileLock {
 public:
  static absl::StatusOr<std::shared_ptr<FileLock>> Open(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return CacheError("open", path, errno);
    return std::shared_ptr<FileLock>(new FileLock(fd));
  }
  ~FileLock() { close(fd_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // `kind`: LOCK_SH or LOCK_EX. False when others have it.
  bool TryTake(int kind) const { return flock(fd_, kind | LOCK_NB) == 0; }
  // Waits for others, who have it for moments.
  void Take() const {
    while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  // Now is the last use of the folder.
  void Touch() const { futimens(fd_, nullptr); }

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  const int fd_;
};

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return CacheError("make", path, errno);
}

// What another user could put there would be trained on.
absl::Status CheckOwner(const std::string& directory) {
  struct stat info;
  if (lstat(directory.c_str(), &info) != 0) return CacheError("inspect", directory, errno);
  if (S_ISLNK(info.st_mode) && stat(directory.c_str(), &info) != 0) {
    return CacheError("inspect", directory, errno);
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, " is no directory; choose another by ", kVariable));
  }
  const bool is_own = info.st_uid == geteuid() || info.st_uid == 0;
  if (is_own && (info.st_mode & S_IWOTH) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      directory, is_own ? " may be written by every user of this machine" : " is another user's",
      ": choose a folder of your own by ", kVariable));
}

// Beside each other lie what a store has in one folder.
std::string FolderOf(const std::string& directory, const ObjectUrl& url) {
  std::string place = url.folder;
  if (url.has_query) absl::StrAppend(&place, "\n", url.address);  // of this address alone
  return absl::StrCat(directory, "/", absl::Hex(HashContent(0, place), absl::kZeroPad16));
}

struct Entry {
  std::string folder;
  int64_t bytes = 0;
  struct timespec used = {};
};

std::vector<Entry> EntriesOf(const std::string& directory, const std::string& own,
                             absl::string_view name) {
  std::vector<Entry> entries;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    struct stat lock;
    const std::string folder = entry.path().string();
    if (stat(absl::StrCat(folder, "/", kLockFile).c_str(), &lock) != 0) continue;  // not ours
    entries.push_back({folder, ObjectBytesIn(folder, folder == own ? name : ""), lock.st_mtim});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  return entries;
}

// Nothing of a folder that somebody uses.
bool RemoveUnused(const std::string& folder) {
  const auto lock = FileLock::Open(absl::StrCat(folder, "/", kLockFile));
  if (!lock.ok() || !(*lock)->TryTake(LOCK_EX)) return false;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    // The lock stays: who waits for it would have another than who comes next.
    if (entry.path().filename() != kLockFile) fs::remove(entry.path(), ignored);
  }
  return true;
}

// Room for an object of `bytes` in `folder`, whose part may be there already.
absl::Status MakeRoom(const ObjectCacheOptions& options, const ObjectUrl& url,
                      const std::string& folder, int64_t bytes) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        url.shown, " has ", bytes, " bytes, and ", options.directory, " may hold ",
        FormatByteSize(options.max_bytes), why, ": allow more by DSLIDE_DATA_CACHE_SIZE"));
  };
  if (bytes > options.max_bytes) return refuse("");
  ASSIGN_OR_RETURN(const auto lock, FileLock::Open(absl::StrCat(options.directory, "/.lock")));
  lock->Take();
  const std::vector<Entry> entries = EntriesOf(options.directory, folder, url.name);
  int64_t total = bytes;
  for (const Entry& entry : entries) total += entry.bytes;
  for (const Entry& entry : entries) {
    if (total <= options.max_bytes) break;
    if (entry.folder == folder || entry.bytes == 0 || !RemoveUnused(entry.folder)) continue;
    total -= entry.bytes;
  }
  return total <= options.max_bytes ? absl::OkStatus() : refuse(", of which others are in use");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectCache>> ObjectCache::Open(ObjectCacheOptions options,
                                                               ObjectSource& source) {
  RETURN_IF_ERROR(MakeFolder(options.directory));
  RETURN_IF_ERROR(CheckOwner(options.directory));
  return std::unique_ptr<ObjectCache>(new ObjectCache(std::move(options), source));
}

absl::StatusOr<ObjectCache::File> ObjectCache::Fetch(const ObjectUrl& url) {
  const std::string folder = FolderOf(options_.directory, url);
  RETURN_IF_ERROR(MakeFolder(folder));
  const auto take = [&](const std::string& path,
                        int kind) -> absl::StatusOr<std::shared_ptr<FileLock>> {
    ASSIGN_OR_RETURN(std::shared_ptr<FileLock> lock, FileLock::Open(path));
    const absl::Duration begin = SteadyClock().Now();
    for (bool noted = false; !lock->TryTake(kind);) {
      if (options_.stop_requested && options_.stop_requested()) {
        return absl::CancelledError(absl::StrCat("interrupted while waiting for ", url.shown));
      }
      if (!noted && options_.note && SteadyClock().Now() - begin >= kNoteAfter) {
        options_.note(absl::StrCat(url.shown, ": another process reads it into ",
                                   options_.directory, ": waiting for it"));
        noted = true;
      }
      absl::SleepFor(kLockCheck);
    }
    return lock;
  };
  ASSIGN_OR_RETURN(const std::shared_ptr<FileLock> use,
                   take(absl::StrCat(folder, "/", kLockFile), LOCK_SH));
  use->Touch();
  ASSIGN_OR_RETURN(const std::shared_ptr<FileLock> fill,
                   take(absl::StrCat(folder, "/.", url.name, ".lock"), LOCK_EX));
  ObjectPart part(
      folder, url.name,
      {.make_room = [&](int64_t bytes) { return MakeRoom(options_, url, folder, bytes); },
       .progress =
           [&](int64_t done, int64_t total) {
             if (options_.progress) options_.progress(url.shown, done, total);
           }});
  const absl::Status read = source_.Read(url, part.version(), part.bytes(), part);
  if (absl::IsNotFound(read)) part.Remove();
  RETURN_IF_ERROR(read);
  RETURN_IF_ERROR(part.Publish());
  return File{.path = part.path(), .lease = use};
}

}  // namespace dslide

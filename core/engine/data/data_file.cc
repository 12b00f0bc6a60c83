#include "core/engine/data/data_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/engine/data/archives/archive_format.h"
#include "core/engine/data/archives/unpack.h"
#include "core/engine/data/file_output.h"

namespace dslide {
namespace {

// Closes a descriptor at the end of a scope.
class ScopedFd {
 public:
  explicit ScopedFd(int fd) : fd_(fd) {}
  ~ScopedFd() {
    if (fd_ >= 0) close(fd_);
  }
  ScopedFd(const ScopedFd&) = delete;
  ScopedFd& operator=(const ScopedFd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// The first bytes of a file, or all.
absl::StatusOr<std::string> HeadOf(int fd, const std::string& path) {
  std::string head(kArchiveHeadBytes, '\0');
  ssize_t got;
  do {
    got = pread(fd, head.data(), head.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  head.resize(static_cast<size_t>(got));
  return head;
}

}  // namespace

DataFile::~DataFile() {
  if (mapped_bytes_ > 0) munmap(mapped_, mapped_bytes_);
}

DataFile::DataFile(DataFile&& other) noexcept { *this = std::move(other); }

DataFile& DataFile::operator=(DataFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(compressed_, other.compressed_);
  return *this;
}

absl::StatusOr<DataFile> DataFile::FromDescriptor(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot inspect ", path));
  }
  DataFile file;
  file.path_ = path;
  if (info.st_size == 0) return file;  // nothing to map
  void* mapped = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", path));
  file.mapped_ = mapped;
  file.mapped_bytes_ = static_cast<size_t>(info.st_size);
  const absl::string_view text =
      WithoutByteOrderMark({static_cast<const char*>(mapped), file.mapped_bytes_});
  file.data_ = text.data();
  file.size_ = static_cast<int64_t>(text.size());
  return file;
}

absl::StatusOr<DataFile> DataFile::Open(const std::string& path, const DataFileOptions& options) {
  // O_NONBLOCK: a named pipe must be refused, not waited for.
  const ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot inspect ", path));
  }
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory; a data file is needed"));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file; write its content to one first"));
  }
  ASSIGN_OR_RETURN(const std::string head, HeadOf(fd.get(), path));
  const ArchiveFormat format = ArchiveFormatOf(head);
  if (format == ArchiveFormat::kForeign) return RefuseForeign(path, head);
  if (format == ArchiveFormat::kNone) return FromDescriptor(fd.get(), path);
  ASSIGN_OR_RETURN(TemporaryFile unpacked, TemporaryFile::Create(options.temp_dir));
  RETURN_IF_ERROR(Unpack({.fd = fd.get(), .path = path, .bytes = info.st_size, .format = format},
                         options.progress,
                         [&](absl::string_view bytes) { return unpacked.Append(bytes); }));
  ASSIGN_OR_RETURN(DataFile file, unpacked.Map(path));
  RETURN_IF_ERROR(RefuseForeign(path, file.bytes().substr(0, kArchiveHeadBytes)));
  file.compressed_ = true;
  return file;
}

}  // namespace dslide

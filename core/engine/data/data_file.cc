#include "core/engine/data/data_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"

namespace dslide {
namespace {

constexpr size_t kBlockBytes = 1 << 20;
constexpr int64_t kProgressBytes = 16 << 20;

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

struct ArchiveDeleter {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

// By content: a name says what somebody meant, the first bytes what is there.
absl::StatusOr<bool> IsCompressed(int fd, const std::string& path) {
  static constexpr absl::string_view kMagics[] = {
      "\x1f\x8b",               // gzip
      {"\xfd\x37zXZ\0", 6},     // xz
      {"\x28\xb5\x2f\xfd", 4},  // zstd
      {"\x04\x22\x4d\x18", 4},  // lz4
  };
  char head[8] = {};
  ssize_t got;
  do {
    got = pread(fd, head, sizeof(head), 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  for (const absl::string_view magic : kMagics) {
    if (static_cast<size_t>(got) < magic.size()) continue;
    if (memcmp(head, magic.data(), magic.size()) == 0) return true;
  }
  return false;
}

absl::Status ArchiveError(archive* reader, const std::string& path) {
  const char* why = archive_error_string(reader);
  return absl::DataLossError(absl::StrCat("cannot unpack ", path, ": ",
                                          why == nullptr ? "unknown error" : why,
                                          " (truncated or corrupt; fetch the file again)"));
}

absl::Status Unpack(int fd, const std::string& path, int64_t packed_bytes,
                    const DataFileOptions& options, TemporaryFile* out) {
  std::unique_ptr<archive, ArchiveDeleter> reader(archive_read_new());
  if (reader == nullptr) return absl::ResourceExhaustedError("no memory to unpack a file");
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_xz(reader.get());
  archive_read_support_filter_zstd(reader.get());
  archive_read_support_filter_lz4(reader.get());
  archive_read_support_format_raw(reader.get());
  archive_read_support_format_empty(reader.get());
  if (archive_read_open_fd(reader.get(), fd, kBlockBytes) != ARCHIVE_OK) {
    return ArchiveError(reader.get(), path);
  }
  archive_entry* entry = nullptr;
  const int opened = archive_read_next_header(reader.get(), &entry);
  if (opened == ARCHIVE_EOF) return absl::OkStatus();  // an archive of nothing
  if (opened != ARCHIVE_OK) return ArchiveError(reader.get(), path);
  std::vector<char> block(kBlockBytes);
  int64_t reported = 0;
  while (true) {
    const la_ssize_t got = archive_read_data(reader.get(), block.data(), block.size());
    if (got < 0) return ArchiveError(reader.get(), path);
    if (got == 0) break;
    RETURN_IF_ERROR(out->Append(absl::string_view(block.data(), static_cast<size_t>(got))));
    const int64_t done = archive_filter_bytes(reader.get(), -1);
    if (options.progress && done - reported >= kProgressBytes) {
      reported = done;
      options.progress(done, packed_bytes);
    }
  }
  if (options.progress) options.progress(packed_bytes, packed_bytes);
  return absl::OkStatus();
}

}  // namespace

DataFile::~DataFile() {
  if (size_ > 0) munmap(const_cast<char*>(data_), static_cast<size_t>(size_));
}

DataFile::DataFile(DataFile&& other) noexcept { *this = std::move(other); }

DataFile& DataFile::operator=(DataFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
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
  file.data_ = static_cast<const char*>(mapped);
  file.size_ = info.st_size;
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
  ASSIGN_OR_RETURN(const bool compressed, IsCompressed(fd.get(), path));
  if (!compressed) return FromDescriptor(fd.get(), path);
  ASSIGN_OR_RETURN(TemporaryFile unpacked, TemporaryFile::Create(options.temp_dir));
  RETURN_IF_ERROR(Unpack(fd.get(), path, info.st_size, options, &unpacked));
  ASSIGN_OR_RETURN(DataFile file, unpacked.Map(path));
  file.compressed_ = true;
  return file;
}

}  // namespace dslide

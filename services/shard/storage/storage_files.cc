#include "services/shard/storage/storage_files.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/base/crc32c.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"

namespace dslide::shard {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// Files up to this size are read at once: the small ones of a database are looked at piece by
// piece.
constexpr uint64_t kSmallFile = 64 << 10;
// Of what is read before its turn; more is read again.
constexpr size_t kMostKept = 64 << 20;
constexpr size_t kPiece = 1 << 20;

// Thread safety: safe from any thread.
class SummedFile {
 public:
  SummedFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, uint64_t size)
      : file_(std::move(file)), size_(size) {}

  // `scratch` has room for n bytes. Returns how many there are, fewer only at the file's end.
  IOStatus Read(uint64_t offset, size_t n, char* scratch, size_t* got) {
    const absl::MutexLock lock(&mu_);
    if (size_ <= kSmallFile && kept_.empty() && size_ > 0) {
      std::string all(size_, '\0');
      size_t read = 0;
      if (IOStatus status = ReadDisk(0, all.size(), all.data(), &read); !status.ok()) {
        return status;
      }
    }
    *got = 0;
    n = offset < size_ ? std::min<uint64_t>(n, size_ - offset) : 0;
    while (*got < n) {
      size_t read = 0;
      if (IOStatus status = ReadPiece(offset + *got, n - *got, scratch + *got, &read);
          !status.ok()) {
        return status;
      }
      if (read == 0) break;  // the file was cut meanwhile
      *got += read;
    }
    return IOStatus::OK();
  }

  // Reads and sums what was not asked for.
  IOStatus Finish(ListedFile* summed) {
    std::string piece(kPiece, '\0');
    size_t got = 0;
    do {
      uint64_t next = 0;
      {
        const absl::MutexLock lock(&mu_);
        next = summed_;
      }
      if (IOStatus status = Read(next, piece.size(), piece.data(), &got); !status.ok()) {
        return status;
      }
    } while (got > 0);
    const absl::MutexLock lock(&mu_);
    summed->bytes = static_cast<int64_t>(summed_);
    summed->crc = crc_;
    return IOStatus::OK();
  }

  int64_t bytes_read() const {
    const absl::MutexLock lock(&mu_);
    return bytes_read_;
  }

 private:
  // Up to where what is kept begins or ends.
  IOStatus ReadPiece(uint64_t offset, size_t n, char* scratch, size_t* got)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto next = kept_.upper_bound(offset);
    if (next != kept_.begin()) {
      const auto& [begin, bytes] = *std::prev(next);
      if (offset < begin + bytes.size()) {
        *got = std::min<uint64_t>(n, begin + bytes.size() - offset);
        std::memcpy(scratch, bytes.data() + (offset - begin), *got);
        return IOStatus::OK();
      }
    }
    if (next != kept_.end()) n = std::min<uint64_t>(n, next->first - offset);
    return ReadDisk(offset, n, scratch, got);
  }

  IOStatus ReadDisk(uint64_t offset, size_t n, char* scratch, size_t* got)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    rocksdb::Slice found;
    if (IOStatus status = file_->Read(offset, n, IOOptions(), &found, scratch, nullptr);
        !status.ok()) {
      return status;
    }
    if (found.data() != scratch) std::memcpy(scratch, found.data(), found.size());
    *got = found.size();
    bytes_read_ += static_cast<int64_t>(*got);
    Sum(offset, absl::string_view(scratch, *got));
    return IOStatus::OK();
  }

  void Sum(uint64_t offset, absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (offset < summed_) {  // read again
      bytes.remove_prefix(std::min<uint64_t>(bytes.size(), summed_ - offset));
      offset = summed_;
    }
    const bool small = size_ <= kSmallFile;
    if ((small || offset > summed_) && kept_bytes_ + bytes.size() <= kMostKept) {
      kept_bytes_ += bytes.size();
      kept_.emplace(offset, bytes);
    }
    if (offset == summed_) {
      Add(bytes);
      // What was read before its turn.
      for (auto next = kept_.find(summed_); next != kept_.end(); next = kept_.find(summed_)) {
        Add(next->second);
      }
    }
  }

  void Add(absl::string_view bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    crc_ = ExtendCrc32c(crc_, bytes);
    summed_ += bytes.size();
  }

  const std::unique_ptr<rocksdb::FSRandomAccessFile> file_;
  const uint64_t size_;

  mutable absl::Mutex mu_;
  uint64_t summed_ ABSL_GUARDED_BY(mu_) = 0;                   // the bytes in front of it
  uint32_t crc_ ABSL_GUARDED_BY(mu_) = 0;                      // of those
  std::map<uint64_t, std::string> kept_ ABSL_GUARDED_BY(mu_);  // by offset; they do not overlap
  size_t kept_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t bytes_read_ ABSL_GUARDED_BY(mu_) = 0;
};

class AnyOrder final : public rocksdb::FSRandomAccessFile {
 public:
  explicit AnyOrder(std::shared_ptr<SummedFile> file) : file_(std::move(file)) {}
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, rocksdb::Slice* result, char* scratch,
                IODebugContext*) const override {
    size_t got = 0;
    IOStatus status = file_->Read(offset, n, scratch, &got);
    *result = rocksdb::Slice(scratch, got);
    return status;
  }

 private:
  const std::shared_ptr<SummedFile> file_;
};

class InOrder final : public rocksdb::FSSequentialFile {
 public:
  explicit InOrder(std::shared_ptr<SummedFile> file) : file_(std::move(file)) {}
  IOStatus Read(size_t n, const IOOptions&, rocksdb::Slice* result, char* scratch,
                IODebugContext*) override {
    size_t got = 0;
    IOStatus status = file_->Read(offset_, n, scratch, &got);
    *result = rocksdb::Slice(scratch, got);
    offset_ += got;
    return status;
  }
  IOStatus Skip(uint64_t n) override {
    offset_ += n;
    return IOStatus::OK();
  }

 private:
  const std::shared_ptr<SummedFile> file_;
  uint64_t offset_ = 0;
};

}  // namespace

class SummedFiles::FileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FileSystem() : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "SummedFiles"; }

  IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* file,
                             IODebugContext* debug) override {
    return NewFile<InOrder>(path, options, file, debug);
  }
  IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* debug) override {
    return NewFile<AnyOrder>(path, options, file, debug);
  }

  // By full path.
  std::map<std::string, std::shared_ptr<SummedFile>> files() const {
    const absl::MutexLock lock(&mu_);
    return files_;
  }

 private:
  template <typename File, typename Base>
  IOStatus NewFile(const std::string& path, const rocksdb::FileOptions& options,
                   std::unique_ptr<Base>* file, IODebugContext* debug) {
    const absl::MutexLock lock(&mu_);
    std::shared_ptr<SummedFile>& summed = files_[path];
    if (summed == nullptr) {
      uint64_t size = 0;
      std::unique_ptr<rocksdb::FSRandomAccessFile> opened;
      IOStatus status = target()->NewRandomAccessFile(path, options, &opened, debug);
      if (status.ok()) status = target()->GetFileSize(path, options.io_options, &size, debug);
      if (!status.ok()) {
        files_.erase(path);
        return status;
      }
      summed = std::make_shared<SummedFile>(std::move(opened), size);
    }
    *file = std::make_unique<File>(summed);
    return IOStatus::OK();
  }

  mutable absl::Mutex mu_;
  std::map<std::string, std::shared_ptr<SummedFile>> files_ ABSL_GUARDED_BY(mu_);
};

SummedFiles::SummedFiles(std::string directory)
    : directory_(std::move(directory)),
      files_(std::make_shared<FileSystem>()),
      env_(rocksdb::NewCompositeEnv(files_)) {}

SummedFiles::~SummedFiles() = default;

absl::StatusOr<std::string> SummedFiles::Read(const std::string& path) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  const std::string full = absl::StrCat(directory_, "/", path);
  IOStatus status = files_->NewSequentialFile(full, rocksdb::FileOptions(), &file, nullptr);
  if (status.IsPathNotFound() || status.IsNotFound()) {
    return absl::DataLossError(absl::StrCat(full, " is missing"));
  }
  std::string bytes;
  std::string piece(kPiece, '\0');
  for (rocksdb::Slice got; status.ok();) {
    status = file->Read(piece.size(), IOOptions(), &got, piece.data(), nullptr);
    if (status.ok() && got.empty()) return bytes;
    bytes.append(got.data(), got.size());
  }
  return SystemErrorOf(absl::StrCat("reading ", full, ": ", status.ToString()));
}

absl::StatusOr<std::vector<ListedFile>> SummedFiles::Finish() {
  std::vector<ListedFile> summed;
  for (const auto& [path, file] : files_->files()) {
    ListedFile& listed = summed.emplace_back();
    listed.path = path.substr(directory_.size() + 1);
    if (IOStatus status = file->Finish(&listed); !status.ok()) {
      return SystemErrorOf(absl::StrCat("reading ", path, ": ", status.ToString()));
    }
  }
  return summed;
}

SummedFiles::Reads SummedFiles::reads() const {
  Reads reads;
  for (const auto& [path, file] : files_->files()) {
    ++reads.opened;
    reads.bytes += file->bytes_read();
  }
  return reads;
}

}  // namespace dslide::shard

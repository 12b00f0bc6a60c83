#include "services/shard/log/storage_log.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"
#include "core/system/log.h"
#include "services/common/files/durable_files.h"
#include "services/shard/log/log_chain.h"
#include "services/shard/storage/storage_options.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKeyBytes = 8;
// Of RocksDB's write-ahead log: blocks, each of which begins with a record's header.
constexpr size_t kWalBlockBytes = 32 << 10;
constexpr size_t kWalHeaderBytes = 7;
// What RocksDB writes besides when it opens a log.
constexpr uintmax_t kSlackBytes = 256 << 10;

absl::Status WriteFailure(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat("writing the command log: ", status.ToString());
  return status.IsNoSpace() ? absl::ResourceExhaustedError(message)
                            : absl::UnavailableError(message);
}

// What a reader finds wrong is damage, whatever RocksDB calls it: a missing file is an I/O error
// there. A file that may not be read is none.
absl::Status OpenFailure(const std::string& directory, const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat("opening ", directory, ": ", status.ToString());
  absl::Status judged = SystemErrorOf(message);
  const bool refused = !absl::IsUnavailable(judged) || status.IsBusy() || status.IsMemoryLimit() ||
                       IsDiskFailure(message) || absl::StrContains(message, "Too many open files");
  return refused ? judged : absl::DataLossError(message);
}

// Leaves it to Reopen() to go on after a full disk.
class NoResumption final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status /*error*/,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

rocksdb::Options LogDatabaseOptions(LogTail tail, const LogStorageOptions& own) {
  rocksdb::Options options = StorageOptions();
  if (own.env != nullptr) options.env = own.env;
  options.wal_recovery_mode = tail == LogTail::kMustBeWhole
                                  ? rocksdb::WALRecoveryMode::kAbsoluteConsistency
                                  : rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // A reused file could show old records behind the new ones.
  options.recycle_log_file_num = 0;
  // What is recovered goes to a table file at once: a write-ahead log with a bad end is read once.
  options.avoid_flush_during_recovery = false;
  options.avoid_flush_during_shutdown = true;
  options.write_buffer_size = static_cast<size_t>(own.table_bytes);
  options.listeners.push_back(std::make_shared<NoResumption>());  // shared with the database
  return options;
}

std::string KeyOf(uint64_t lsn) {
  std::string key(kKeyBytes, '\0');
  for (size_t byte = 0; byte < kKeyBytes; ++byte) {
    key[byte] = static_cast<char>(lsn >> (56 - 8 * byte));
  }
  return key;
}

uint64_t LsnOf(absl::string_view key) {
  uint64_t lsn = 0;
  for (const char byte : key) lsn = lsn << 8 | static_cast<uint8_t>(byte);
  return lsn;
}

// What records of a write-ahead log hold, without the headers at the blocks' beginnings: a record
// that fills several blocks lies together then.
std::string WithoutBlockHeaders(absl::string_view wal) {
  std::string bytes;
  bytes.reserve(wal.size());
  for (size_t at = 0; at < wal.size(); at += kWalBlockBytes) {
    const absl::string_view block = wal.substr(at, kWalBlockBytes);
    if (block.size() > kWalHeaderBytes) {
      bytes.append(block.data() + kWalHeaderBytes, block.size() - kWalHeaderBytes);
    }
  }
  return bytes;
}

absl::StatusOr<std::vector<fs::path>> WalFiles(const std::string& directory) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".log") files.push_back(entry.path());
  }
  if (!error) return files;
  return SystemError("list", directory, error.value());
}

}  // namespace

LogStorage::LogStorage(const std::string& directory, const LogStorageOptions& options,
                       std::unique_ptr<rocksdb::DB> db)
    : directory_(directory),
      options_(options),
      sync_file_(options.sync_file ? options.sync_file : [](int fd) { return fdatasync(fd); }),
      db_(std::move(db)),
      batch_(std::make_unique<rocksdb::WriteBatch>()) {}

LogStorage::~LogStorage() {
  if (wal_ >= 0) close(wal_);
  if (db_ != nullptr) db_->Close().PermitUncheckedError();
}

absl::StatusOr<std::unique_ptr<LogStorage>> LogStorage::Create(const std::string& directory,
                                                               const LogStorageOptions& own) {
  rocksdb::Options options = LogDatabaseOptions(LogTail::kMustBeWhole, own);
  options.create_if_missing = true;
  options.error_if_exists = true;
  rocksdb::DB* raw = nullptr;
  // RocksDB would warn of a directory that it is about to make. It says what is wrong with one.
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const rocksdb::Status made = rocksdb::DB::Open(options, directory, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  RETURN_IF_ERROR(WriteFailure(made));
  return std::unique_ptr<LogStorage>(new LogStorage(directory, own, std::move(db)));
}

absl::StatusOr<std::unique_ptr<LogStorage>> LogStorage::Open(const std::string& directory,
                                                             LogTail tail,
                                                             const LogStorageOptions& own) {
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(LogDatabaseOptions(tail, own), directory, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  RETURN_IF_ERROR(OpenFailure(directory, opened));
  return std::unique_ptr<LogStorage>(new LogStorage(directory, own, std::move(db)));
}

absl::StatusOr<std::unique_ptr<LogStorage>> LogStorage::OpenToRead(const std::string& directory,
                                                                   LogTail tail,
                                                                   const LogStorageOptions& own) {
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened =
      rocksdb::DB::OpenForReadOnly(LogDatabaseOptions(tail, own), directory, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  RETURN_IF_ERROR(OpenFailure(directory, opened));
  return std::unique_ptr<LogStorage>(new LogStorage(directory, own, std::move(db)));
}

absl::Status LogStorage::Put(uint64_t lsn, absl::string_view frame,
                             absl::Span<const absl::string_view> payload) {
  const std::string key = KeyOf(lsn);
  const rocksdb::Slice key_slice(key);
  std::vector<rocksdb::Slice> value;
  value.reserve(payload.size() + 1);
  value.emplace_back(frame.data(), frame.size());
  for (const absl::string_view piece : payload) value.emplace_back(piece.data(), piece.size());
  batch_->Clear();
  rocksdb::Status status =
      batch_->Put(rocksdb::SliceParts(&key_slice, 1),
                  rocksdb::SliceParts(value.data(), static_cast<int>(value.size())));
  if (status.ok()) status = db_->Write(rocksdb::WriteOptions(), batch_.get());
  // One large request is no reason to keep its memory for ever.
  constexpr size_t kKeptBatchBytes = size_t{4} << 20;
  if (batch_->GetDataSize() > kKeptBatchBytes) *batch_ = rocksdb::WriteBatch();
  return WriteFailure(status);
}

// Syncs the write-ahead logs that there are; one that is gone lies in a synced table file.
absl::Status LogStorage::SyncWals() {
  ASSIGN_OR_RETURN(const std::vector<fs::path> files, WalFiles(directory_));
  for (const fs::path& file : files) {
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) continue;
    if (fd < 0) return SystemError("open", file, errno);
    const int result = sync_file_(fd);
    const int error = errno;
    close(fd);
    if (result != 0) return SystemError("sync", file, error);
  }
  return absl::OkStatus();
}

// Follows RocksDB to the file that it writes to now. Those before it get no more records, and are
// synced here for the last time. While Put() goes on, the file that was named may have grown old
// and be gone before it is opened: then there is a newer one.
absl::Status LogStorage::OpenWal() {
  for (std::string gone;;) {
    std::unique_ptr<rocksdb::LogFile> wal;
    if (const rocksdb::Status found = db_->GetCurrentWalFile(&wal); !found.ok()) {
      return absl::UnavailableError(
          absl::StrCat("finding the write-ahead log: ", found.ToString()));
    }
    const std::string path = absl::StrCat(directory_, wal->PathName());
    if (path == wal_path_) return absl::OkStatus();
    RETURN_IF_ERROR(SyncWals());
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno != ENOENT || path == gone)) return SystemError("open", path, errno);
    if (fd < 0) {
      gone = path;
      continue;
    }
    if (wal_ >= 0) close(wal_);
    wal_ = fd;
    wal_path_ = path;
    return SyncDirectory(directory_);
  }
}

absl::Status LogStorage::Sync() {
  const absl::MutexLock lock(&mu_);
  return db_ == nullptr ? absl::OkStatus() : SyncOpen();
}

absl::Status LogStorage::Reopen() {
  const absl::MutexLock lock(&mu_);
  if (db_ != nullptr) {
    RETURN_IF_ERROR(SyncOpen());
    db_->Close().PermitUncheckedError();
    db_ = nullptr;
    close(wal_);
    wal_ = -1;
    wal_path_.clear();
  }
  RETURN_IF_ERROR(CheckSpace());
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened =
      rocksdb::DB::Open(LogDatabaseOptions(LogTail::kCutAtDamage, options_), directory_, &raw);
  db_.reset(raw);
  return WriteFailure(opened);
}

absl::Status LogStorage::CheckSpace() const {
  // What is only in a write-ahead log goes to a table file. Without room for that, an attempt to
  // open costs as long as one that succeeds, and the shard stands still meanwhile.
  ASSIGN_OR_RETURN(const std::vector<fs::path> wals, WalFiles(directory_));
  std::error_code error;
  uintmax_t needed = kSlackBytes;
  for (const fs::path& wal : wals) {
    const uintmax_t bytes = fs::file_size(wal, error);
    if (!error) needed += bytes;
  }
  const fs::space_info space = fs::space(directory_, error);
  if (error || space.available >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("it has ", space.available, " bytes left, ", needed, " are needed to go on"));
}

absl::Status LogStorage::SyncOpen() {
  RETURN_IF_ERROR(OpenWal());
  if (sync_file_(wal_) != 0) return SystemError("sync", wal_path_, errno);
  return absl::OkStatus();
}

absl::Status LogStorage::DropBelow(uint64_t lsn) {
  if (db_ == nullptr) {
    return absl::UnavailableError("the command log is closed until its disk has space again");
  }
  std::vector<rocksdb::LiveFileMetaData> files;
  db_->GetLiveFilesMetaData(&files);
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.largestkey < b.largestkey; });
  for (const rocksdb::LiveFileMetaData& file : files) {
    if (LsnOf(file.largestkey) >= lsn) break;
    const rocksdb::Status dropped = db_->DeleteFile(file.name);
    if (!dropped.ok()) {
      return absl::UnavailableError(
          absl::StrCat("dropping old records of the command log: ", dropped.ToString()));
    }
  }
  return absl::OkStatus();
}

absl::Status LogStorage::ForEach(
    uint64_t first,
    absl::FunctionRef<absl::Status(uint64_t lsn, absl::string_view record)> visit) const {
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  read.fill_cache = false;
  read.readahead_size = 4 << 20;
  const std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator(read));
  for (iterator->Seek(KeyOf(first)); iterator->Valid(); iterator->Next()) {
    const rocksdb::Slice key = iterator->key();
    if (key.size() != kKeyBytes) return absl::DataLossError("a log record has no lsn for a key");
    const rocksdb::Slice value = iterator->value();
    RETURN_IF_ERROR(visit(LsnOf({key.data(), key.size()}), {value.data(), value.size()}));
  }
  if (iterator->status().ok()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("reading the command log: ", iterator->status().ToString()));
}

absl::StatusOr<uint64_t> FindRecordAbove(uint64_t lsn, const std::string& directory) {
  uint64_t highest = 0;
  ASSIGN_OR_RETURN(const std::vector<fs::path> wals, WalFiles(directory));
  for (const fs::path& path : wals) {
    ASSIGN_OR_RETURN(const std::string wal, ReadFile(path));
    const std::string bytes = WithoutBlockHeaders(wal);
    highest = std::max(highest, HighestRecordAbove(lsn, bytes));
  }
  return highest;
}

}  // namespace dslide::shard

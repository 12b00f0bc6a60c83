// The records of a command log in a RocksDB database of their own: key lsn (u64, big-endian), value
// the record's frame and payload. Internal to the command log.
//
// RocksDB's write-ahead log is where a record is first written and all that is ever synced on its
// account; table files take over what has grown old. How much of a damaged write-ahead log counts
// is not left to RocksDB: its default silently ends the log at the first bad byte.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "services/shard/log/log_record.h"

namespace rocksdb {
class DB;
class Env;
class WriteBatch;
}  // namespace rocksdb

namespace dslide::shard {

struct LogStorageOptions {
  // Replaced by tests that let writes and syncs fail; null: the system's.
  rocksdb::Env* env = nullptr;
  std::function<int(int fd)> sync_file = nullptr;  // as fdatasync()
  // Records of about so many bytes go to a table file together. More is fewer files, and more to
  // read back at a start.
  int64_t table_bytes = int64_t{32} << 20;
};

// What RocksDB makes of a write-ahead log whose end is not as it was written.
enum class LogTail {
  kMustBeWhole,  // refuses to open
  kCutAtDamage,  // ends the log in front of the first bad record, whatever lies behind it
};

// Write-ahead logs are synced through descriptors of our own. RocksDB's SyncWAL() may not be called
// on a file whose last write has failed (its debug build aborts), and then what was written before
// could not be made durable while a disk is full.
//
// Thread safety: Put(), Reopen() and DropBelow() by one thread, Sync() by another one; the rest
// excludes everything.
class LogStorage {
 public:
  // Errors: DataLoss when RocksDB finds damage or a missing file; Unavailable with its reason.
  static absl::StatusOr<std::unique_ptr<LogStorage>> Create(const std::string& directory,
                                                            const LogStorageOptions& own);
  static absl::StatusOr<std::unique_ptr<LogStorage>> Open(const std::string& directory,
                                                          LogTail tail,
                                                          const LogStorageOptions& own);
  // Changes nothing on the disk, and needs no lock.
  static absl::StatusOr<std::unique_ptr<LogStorage>> OpenToRead(const std::string& directory,
                                                                LogTail tail,
                                                                const LogStorageOptions& own);
  ~LogStorage();

  // Hands one record to the operating system; it is not durable yet.
  // Errors: ResourceExhausted when the disk is full: the record is not in the log, and none goes
  // there before Reopen(). Anything else: the log has failed.
  absl::Status Put(uint64_t lsn, absl::string_view frame,
                   absl::Span<const absl::string_view> payload);
  // Makes everything durable that was Put() before.
  absl::Status Sync();
  // After a full disk: syncs what was Put(), closes the database and opens it again without the
  // torn end that the refused record has left. RocksDB's own resumption is off: it lets writes to a
  // file whose last write has failed, which its debug build answers by aborting.
  // Errors: ResourceExhausted while the disk is full, to be tried again; else the log has failed.
  absl::Status Reopen();
  // Drops whole table files whose records all lie below `lsn`; some below it may stay.
  absl::Status DropBelow(uint64_t lsn);

  // Calls visit for all records from `first` on by ascending lsn, with the bytes as they are
  // stored. Errors: DataLoss when they cannot be read; those of `visit`.
  absl::Status ForEach(
      uint64_t first,
      absl::FunctionRef<absl::Status(uint64_t lsn, absl::string_view record)> visit) const;

 private:
  LogStorage(const std::string& directory, const LogStorageOptions& options,
             std::unique_ptr<rocksdb::DB> db);

  // Errors: ResourceExhausted when the disk has no room for opening the log.
  absl::Status CheckSpace() const;
  absl::Status SyncWals();
  absl::Status OpenWal();
  absl::Status SyncOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string directory_;
  const LogStorageOptions options_;
  const std::function<int(int fd)> sync_file_;
  absl::Mutex mu_;  // between Sync() and Reopen()
  // Changed by Reopen(), which excludes Sync(); null while a full disk keeps it closed, and
  // everything is durable then.
  std::unique_ptr<rocksdb::DB> db_;
  // Of Put(): the memory of the last write is used again.
  const std::unique_ptr<rocksdb::WriteBatch> batch_;
  // Of Sync(): the write-ahead log that records go to, as it was last seen.
  std::string wal_path_;
  int wal_ = -1;
};

// Looks for a whole record above `lsn` in the write-ahead logs, byte by byte: also behind damage,
// where RocksDB does not look. Returns the highest lsn found, 0 when there is none.
// Errors: Unavailable with the system's reason.
absl::StatusOr<uint64_t> FindRecordAbove(uint64_t lsn, const std::string& directory);

}  // namespace dslide::shard

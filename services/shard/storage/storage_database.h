// One RocksDB database of rows, written once, and several of them read as one: what is in a newer
// one stands for the same row of the older ones. Internal to the shard's storage.
//
// Key "m" has the metadata record; "r" + table number (u16, big-endian) + global row id (u32,
// big-endian) has the row's record.

#pragma once

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "services/shard/storage/storage_files.h"

namespace dslide::shard {

// Not thread-safe.
class RowDatabaseWriter {
 public:
  // Makes a database in `directory`, which must not exist. Errors: those of SystemErrorOf()
  // with RocksDB's reason, as of the other functions.
  static absl::StatusOr<RowDatabaseWriter> Create(const std::string& directory);

  // Ascending by (table, row).
  absl::Status Put(size_t table, RowId row, absl::Span<const char> record);
  // After the last row. Everything is synced when it returns.
  absl::Status Finish(absl::string_view metadata);

 private:
  RowDatabaseWriter(std::string directory, rocksdb::Options options,
                    std::unique_ptr<rocksdb::DB> db)
      : directory_(std::move(directory)), options_(std::move(options)), db_(std::move(db)) {}
  absl::Status PutKey(const rocksdb::Slice& key, const rocksdb::Slice& value);
  absl::Status EndFile();

  std::string directory_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::string> files_;
  std::unique_ptr<rocksdb::SstFileWriter> file_;
};

// Not thread-safe.
class RowDatabaseReader {
 public:
  // directories: one at least, the oldest first. files: through which it reads, and outlive it;
  // null: it reads by itself. Errors, as of the others: DataLoss; PermissionDenied and Unavailable
  // for what the system did not let be read.
  static absl::StatusOr<RowDatabaseReader> Open(const std::vector<std::string>& directories,
                                                SummedFiles* files = nullptr);

  int64_t databases() const { return static_cast<int64_t>(databases_.size()); }

  // The metadata record of the newest. Errors: DataLoss.
  absl::StatusOr<std::string> ReadMetadata();

  // Goes to the first row. Every block that is read on the way is compared with its checksum.
  void Begin();
  // Whether there is a row here; not after the last one, nor after an error.
  bool valid() const { return current_ != nullptr; }
  // OK, or what ended the reading: DataLoss.
  const absl::Status& status() const { return status_; }
  void Next();

  // Of the row here.
  bool IsAt(size_t table, RowId row) const;
  bool has_row_key() const;  // else the next two mean nothing
  size_t table() const;
  RowId row() const;
  // Valid until Next().
  absl::Span<const char> record() const;

 private:
  RowDatabaseReader() = default;
  // The iterator with the lowest key; of equal ones the newest.
  void Choose();

  std::vector<std::unique_ptr<rocksdb::DB>> databases_;
  std::vector<std::unique_ptr<rocksdb::Iterator>> iterators_;  // as databases_
  rocksdb::Iterator* current_ = nullptr;
  absl::Status status_;
};

}  // namespace dslide::shard

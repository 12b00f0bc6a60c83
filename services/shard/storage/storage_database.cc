#include "services/shard/storage/storage_database.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"
#include "services/shard/storage/storage_options.h"

namespace dslide::shard {
namespace {

constexpr char kMetadataKey[] = "m";
constexpr char kRowPrefix = 'r';
constexpr size_t kRowKeyBytes = 1 + 2 + 4;
// A table file larger than this is ended and the next begun.
constexpr uint64_t kFileBytes = uint64_t{1} << 30;

absl::Status FromRocks(absl::string_view what, const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", status.ToString());
  return status.IsCorruption() ? absl::DataLossError(message) : SystemErrorOf(message);
}

// What a reader finds wrong is damage, whatever RocksDB calls it: unless it was not let read.
absl::Status ReadFailure(absl::string_view what, const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", status.ToString());
  absl::Status judged = SystemErrorOf(message);
  if (!absl::IsUnavailable(judged) || IsDiskFailure(message)) return judged;
  return absl::DataLossError(message);
}

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options = StorageOptions();
  options.create_if_missing = true;
  options.error_if_exists = true;
  // Files that are taken in have no such id, which would be a warning; every block has a checksum.
  options.verify_sst_unique_id_in_manifest = false;
  return options;
}

std::string RowKey(size_t table, RowId row) {
  std::string key(kRowKeyBytes, kRowPrefix);
  key[1] = static_cast<char>(table >> 8);
  key[2] = static_cast<char>(table);
  for (int byte = 0; byte < 4; ++byte) {
    key[3 + byte] = static_cast<char>(row.value() >> (24 - 8 * byte));
  }
  return key;
}

// The disk begins to write before a file is complete, and its sync waits for little.
rocksdb::EnvOptions WritingOptions() {
  rocksdb::EnvOptions options;
  options.bytes_per_sync = 4 << 20;
  return options;
}

rocksdb::Slice SliceOf(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenForReading(const std::string& directory,
                                                            SummedFiles* files) {
  rocksdb::Options options = DatabaseOptions();
  if (files != nullptr) options.env = files->env();
  options.create_if_missing = false;
  options.error_if_exists = false;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, directory, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  RETURN_IF_ERROR(ReadFailure("opening it", opened));
  return db;
}

rocksdb::ReadOptions FullScan() {
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  read.fill_cache = false;
  read.readahead_size = 4 << 20;
  read.total_order_seek = true;
  return read;
}

}  // namespace

absl::StatusOr<RowDatabaseWriter> RowDatabaseWriter::Create(const std::string& directory) {
  rocksdb::Options options = DatabaseOptions();
  rocksdb::DB* raw = nullptr;
  // RocksDB would warn of a directory that it is about to make. It says what is wrong with one.
  std::error_code ignored;
  std::filesystem::create_directories(directory, ignored);
  const rocksdb::Status opened = rocksdb::DB::Open(options, directory, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  RETURN_IF_ERROR(FromRocks("making the database", opened));
  return RowDatabaseWriter(directory, std::move(options), std::move(db));
}

absl::Status RowDatabaseWriter::PutKey(const rocksdb::Slice& key, const rocksdb::Slice& value) {
  if (file_ == nullptr) {
    // Its pages stay in the system's cache: they are read back right away.
    file_ = std::make_unique<rocksdb::SstFileWriter>(WritingOptions(), options_,
                                                     /*column_family=*/nullptr,
                                                     /*invalidate_page_cache=*/false);
    files_.push_back(absl::StrCat(directory_, "/rows-", files_.size(), ".sst"));
    RETURN_IF_ERROR(FromRocks("making a table file", file_->Open(files_.back())));
  }
  RETURN_IF_ERROR(FromRocks("writing a row", file_->Put(key, value)));
  return file_->FileSize() < kFileBytes ? absl::OkStatus() : EndFile();
}

absl::Status RowDatabaseWriter::EndFile() {
  if (file_ == nullptr) return absl::OkStatus();
  const rocksdb::Status finished = file_->Finish();  // syncs the file
  file_ = nullptr;
  return FromRocks("ending a table file", finished);
}

absl::Status RowDatabaseWriter::Put(size_t table, RowId row, absl::Span<const char> record) {
  return PutKey(RowKey(table, row), {record.data(), record.size()});
}

absl::Status RowDatabaseWriter::Finish(absl::string_view metadata) {
  RETURN_IF_ERROR(EndFile());
  // Known only now, and in front of the rows: a file of its own.
  RETURN_IF_ERROR(PutKey(kMetadataKey, SliceOf(metadata)));
  RETURN_IF_ERROR(EndFile());
  rocksdb::IngestExternalFileOptions ingest;
  ingest.move_files = true;
  ingest.verify_checksums_before_ingest = false;  // everything is read back afterwards
  RETURN_IF_ERROR(FromRocks("taking in the table files", db_->IngestExternalFile(files_, ingest)));
  return FromRocks("closing the database", db_->Close());
}

absl::StatusOr<RowDatabaseReader> RowDatabaseReader::Open(
    const std::vector<std::string>& directories, SummedFiles* files) {
  RowDatabaseReader reader;
  for (const std::string& directory : directories) {
    absl::StatusOr<std::unique_ptr<rocksdb::DB>> db = OpenForReading(directory, files);
    if (!db.ok() && directories.size() > 1) {
      return absl::DataLossError(absl::StrCat(directory, ": ", db.status().message()));
    }
    RETURN_IF_ERROR(db.status());
    reader.databases_.push_back(*std::move(db));
  }
  return reader;
}

absl::StatusOr<std::string> RowDatabaseReader::ReadMetadata() {
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  std::string bytes;
  RETURN_IF_ERROR(ReadFailure("reading the metadata record",
                              databases_.back()->Get(read, kMetadataKey, &bytes)));
  return bytes;
}

void RowDatabaseReader::Begin() {
  iterators_.clear();
  status_ = absl::OkStatus();
  for (const auto& database : databases_) {
    iterators_.emplace_back(database->NewIterator(FullScan()));
    iterators_.back()->Seek(std::string(1, kRowPrefix));
  }
  Choose();
}

void RowDatabaseReader::Choose() {
  current_ = nullptr;
  for (auto newest = iterators_.rbegin(); newest != iterators_.rend(); ++newest) {
    rocksdb::Iterator& iterator = **newest;
    if (!iterator.Valid()) {
      if (status_.ok()) status_ = ReadFailure("reading rows", iterator.status());
    } else if (current_ == nullptr || iterator.key().compare(current_->key()) < 0) {
      current_ = &iterator;
    }
  }
  if (!status_.ok()) current_ = nullptr;
}

void RowDatabaseReader::Next() {
  if (iterators_.size() == 1) {
    current_->Next();
  } else {
    const std::string key = current_->key().ToString();
    for (const auto& iterator : iterators_) {
      if (iterator->Valid() && iterator->key() == rocksdb::Slice(key)) iterator->Next();
    }
  }
  Choose();
}

bool RowDatabaseReader::IsAt(size_t table, RowId row) const {
  return valid() && current_->key() == rocksdb::Slice(RowKey(table, row));
}

bool RowDatabaseReader::has_row_key() const { return current_->key().size() == kRowKeyBytes; }

size_t RowDatabaseReader::table() const {
  const rocksdb::Slice key = current_->key();
  return static_cast<size_t>(static_cast<unsigned char>(key[1])) << 8 |
         static_cast<unsigned char>(key[2]);
}

RowId RowDatabaseReader::row() const {
  const rocksdb::Slice key = current_->key();
  uint32_t row = 0;
  for (size_t byte = 3; byte < kRowKeyBytes; ++byte) {
    row = row << 8 | static_cast<unsigned char>(key[byte]);
  }
  return RowId(row);
}

absl::Span<const char> RowDatabaseReader::record() const {
  const rocksdb::Slice value = current_->value();
  return {value.data(), value.size()};
}

}  // namespace dslide::shard

#include "services/shard/storage_rows.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/record_digest.h"
#include "services/shard/storage_options.h"

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
  return status.IsCorruption() ? absl::DataLossError(message) : absl::UnavailableError(message);
}

// What a reader finds wrong is damage, whatever RocksDB calls it.
absl::Status ReadFailure(absl::string_view what, const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(what, ": ", status.ToString()));
}

rocksdb::Options DatabaseOptions() {
  rocksdb::Options options = StorageOptions();
  options.create_if_missing = true;
  options.error_if_exists = true;
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

size_t TableOfKey(const rocksdb::Slice& key) {
  return static_cast<size_t>(static_cast<unsigned char>(key[1])) << 8 |
         static_cast<unsigned char>(key[2]);
}

RowId RowOfKey(const rocksdb::Slice& key) {
  uint32_t row = 0;
  for (size_t byte = 3; byte < kRowKeyBytes; ++byte) {
    row = row << 8 | static_cast<unsigned char>(key[byte]);
  }
  return RowId(row);
}

// Calls visit(global id, local id) for all rows of a table by ascending global id.
template <typename Visit>
absl::Status ForEachRow(const ShardTable& table, const Visit& visit) {
  const ShardRows& rows = table.store().rows();
  for (int64_t base = 0; base < rows.table_rows(); base += table.spec.num_slots) {
    for (const SlotId slot : rows.slots()) {
      const int64_t row = base + slot.value();
      if (row >= rows.table_rows()) break;
      const RowId global(static_cast<uint32_t>(row));
      RETURN_IF_ERROR(visit(global, rows.ToLocal(global)));
    }
  }
  return absl::OkStatus();
}

rocksdb::Slice SliceOf(absl::Span<const char> record) { return {record.data(), record.size()}; }

// Writes ascending keys into table files of at most kFileBytes.
class RowWriter {
 public:
  RowWriter(const rocksdb::Options& options, std::string directory)
      : options_(options), directory_(std::move(directory)) {}

  absl::Status Put(const rocksdb::Slice& key, const rocksdb::Slice& value) {
    if (writer_ == nullptr) {
      // Its pages stay in the system's cache: they are read back right away.
      writer_ = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), options_,
                                                         /*column_family=*/nullptr,
                                                         /*invalidate_page_cache=*/false);
      files_.push_back(absl::StrCat(directory_, "/rows-", files_.size(), ".sst"));
      RETURN_IF_ERROR(FromRocks("making a table file", writer_->Open(files_.back())));
    }
    RETURN_IF_ERROR(FromRocks("writing a row", writer_->Put(key, value)));
    return writer_->FileSize() < kFileBytes ? absl::OkStatus() : Finish();
  }

  absl::Status Finish() {
    if (writer_ == nullptr) return absl::OkStatus();
    const rocksdb::Status finished = writer_->Finish();  // syncs the file
    writer_ = nullptr;
    return FromRocks("ending a table file", finished);
  }

  const std::vector<std::string>& files() const { return files_; }

 private:
  const rocksdb::Options options_;
  const std::string directory_;
  std::vector<std::string> files_;
  std::unique_ptr<rocksdb::SstFileWriter> writer_;
};

absl::StatusOr<std::unique_ptr<rocksdb::DB>> OpenForReading(const std::string& directory) {
  rocksdb::Options options = DatabaseOptions();
  options.create_if_missing = false;
  options.error_if_exists = false;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(options, directory, &raw);
  std::unique_ptr<rocksdb::DB> db(raw);
  RETURN_IF_ERROR(ReadFailure("opening it", opened));
  return db;
}

absl::StatusOr<std::string> ReadMetadataBytes(rocksdb::DB& db) {
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  std::string bytes;
  RETURN_IF_ERROR(ReadFailure("reading the metadata record", db.Get(read, kMetadataKey, &bytes)));
  return bytes;
}

rocksdb::ReadOptions FullScan() {
  rocksdb::ReadOptions read;
  read.verify_checksums = true;
  read.fill_cache = false;
  read.readahead_size = 256 << 10;
  read.total_order_seek = true;
  return read;
}

// Reads the database from end to end and calls visit(table, local id, record bytes) for each row;
// the rows must be exactly those of the model.
template <typename Visit>
absl::Status ReadAllRows(rocksdb::DB& db, const ShardModel& model, const Visit& visit) {
  const std::unique_ptr<rocksdb::Iterator> iterator(db.NewIterator(FullScan()));
  iterator->Seek(std::string(1, kRowPrefix));
  for (size_t t = 0; t < model.tables().size(); ++t) {
    const ShardTable& table = model.tables()[t];
    RETURN_IF_ERROR(ForEachRow(table, [&](RowId row, LocalRow local) -> absl::Status {
      RETURN_IF_ERROR(ReadFailure("reading rows", iterator->status()));
      if (!iterator->Valid() || iterator->key() != rocksdb::Slice(RowKey(t, row))) {
        return absl::DataLossError(absl::StrCat("row ", row.value(), " of table \"",
                                                table.spec.name, "\" is not where it must be"));
      }
      RETURN_IF_ERROR(visit(t, local, iterator->value()));
      iterator->Next();
      return absl::OkStatus();
    }));
  }
  RETURN_IF_ERROR(ReadFailure("reading rows", iterator->status()));
  if (iterator->Valid()) {
    return absl::DataLossError("there are more rows than the metadata record says");
  }
  return absl::OkStatus();
}

absl::Status CheckTables(const CheckpointMetadata& metadata, const ShardModel& model) {
  if (metadata.tables.size() != model.tables().size()) {
    return absl::DataLossError("the metadata record lists other tables than its model has");
  }
  for (size_t i = 0; i < metadata.tables.size(); ++i) {
    const CheckpointTable& written = metadata.tables[i];
    const RowStore& store = model.tables()[i].store();
    if (written.precision != model.tables()[i].spec.precision) {
      return absl::DataLossError(absl::StrCat("table \"", written.name,
                                              "\" was written in precision ",
                                              PrecisionName(written.precision), ", here it is ",
                                              PrecisionName(model.tables()[i].spec.precision)));
    }
    if (written.name != model.tables()[i].spec.name || written.rows != store.num_rows() ||
        written.record_bytes != store.record_bytes()) {
      return absl::DataLossError(absl::StrCat("table \"", written.name, "\" was written with ",
                                              written.rows, " records of ", written.record_bytes,
                                              " bytes, here it has ", store.num_rows(), " of ",
                                              store.record_bytes()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointMetadata> WriteRows(const std::string& directory,
                                             CheckpointMetadata metadata, const ShardModel& model,
                                             RecordSource& records) {
  const rocksdb::Options options = DatabaseOptions();
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(options, directory, &raw);
  const std::unique_ptr<rocksdb::DB> db(raw);
  RETURN_IF_ERROR(FromRocks("making the database", opened));
  RowWriter writer(options, directory);
  for (size_t t = 0; t < model.tables().size(); ++t) {
    const RowStore& store = model.tables()[t].store();
    uint64_t digest = 0;
    RETURN_IF_ERROR(ForEachRow(model.tables()[t], [&](RowId row, LocalRow local) {
      const absl::Span<const char> record = records.Record(t, local);
      digest += store.DigestOf(local, record.data());
      return writer.Put(RowKey(t, row), SliceOf(record));
    }));
    metadata.tables[t].digest = digest;
  }
  RETURN_IF_ERROR(writer.Finish());
  // Known only now, and in front of the rows: a file of its own.
  RETURN_IF_ERROR(writer.Put(kMetadataKey, EncodeMetadata(metadata)));
  RETURN_IF_ERROR(writer.Finish());
  rocksdb::IngestExternalFileOptions ingest;
  ingest.move_files = true;
  ingest.verify_checksums_before_ingest = false;  // everything is read back afterwards
  RETURN_IF_ERROR(
      FromRocks("taking in the table files", db->IngestExternalFile(writer.files(), ingest)));
  RETURN_IF_ERROR(FromRocks("closing the database", db->Close()));
  return metadata;
}

absl::StatusOr<CheckpointMetadata> WriteRows(const std::string& directory,
                                             const ShardModel& model) {
  StoredRecords records(model);
  return WriteRows(directory, DescribeForCheckpoint(model), model, records);
}

absl::StatusOr<CheckpointMetadata> ReadCheckpointMetadata(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, OpenForReading(directory));
  ASSIGN_OR_RETURN(const std::string bytes, ReadMetadataBytes(*db));
  return DecodeMetadata(bytes);
}

absl::Status VerifyRows(const std::string& directory, const CheckpointMetadata& metadata,
                        const ShardModel& model) {
  ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, OpenForReading(directory));
  ASSIGN_OR_RETURN(const std::string bytes, ReadMetadataBytes(*db));
  if (bytes != EncodeMetadata(metadata)) {
    return absl::DataLossError("the metadata record reads back differently");
  }
  std::vector<uint64_t> digests(model.tables().size(), 0);
  RETURN_IF_ERROR(ReadAllRows(
      *db, model, [&](size_t t, LocalRow local, const rocksdb::Slice& value) -> absl::Status {
        const RowStore& store = model.tables()[t].store();
        if (static_cast<int64_t>(value.size()) != store.record_bytes()) {
          return absl::DataLossError("a row reads back with another size");
        }
        digests[t] += store.DigestOf(local, value.data());
        return absl::OkStatus();
      }));
  for (size_t t = 0; t < digests.size(); ++t) {
    if (digests[t] != metadata.tables[t].digest) {
      return absl::DataLossError(
          absl::StrCat("table \"", metadata.tables[t].name, "\" reads back differently"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointMetadata> InspectRows(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, OpenForReading(directory));
  ASSIGN_OR_RETURN(const std::string bytes, ReadMetadataBytes(*db));
  ASSIGN_OR_RETURN(CheckpointMetadata metadata, DecodeMetadata(bytes));
  std::vector<CheckpointTable> found(metadata.tables.size());
  const std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(FullScan()));
  for (iterator->Seek(std::string(1, kRowPrefix)); iterator->Valid(); iterator->Next()) {
    const rocksdb::Slice key = iterator->key();
    const size_t table = key.size() == kRowKeyBytes ? TableOfKey(key) : found.size();
    if (table >= found.size()) return absl::DataLossError("there is a row of no table");
    const rocksdb::Slice record = iterator->value();
    if (static_cast<int64_t>(record.size()) != metadata.tables[table].record_bytes ||
        record.size() % kRecordLineBytes != 0) {
      return absl::DataLossError(absl::StrCat("table \"", metadata.tables[table].name,
                                              "\" has a row of ", record.size(), " bytes"));
    }
    ++found[table].rows;
    found[table].digest += RecordDigest(RowOfKey(key), {record.data(), record.size()});
  }
  RETURN_IF_ERROR(ReadFailure("reading rows", iterator->status()));
  for (size_t t = 0; t < found.size(); ++t) {
    const CheckpointTable& written = metadata.tables[t];
    if (found[t].rows != written.rows || found[t].digest != written.digest) {
      return absl::DataLossError(absl::StrCat("table \"", written.name, "\" has ", found[t].rows,
                                              " rows with another content than the ", written.rows,
                                              " that were written"));
    }
  }
  return metadata;
}

absl::Status ReadRows(const std::string& directory, const CheckpointMetadata& metadata,
                      ShardModel& model, ModelHashes* hashes) {
  RETURN_IF_ERROR(CheckTables(metadata, model));
  ASSIGN_OR_RETURN(const std::unique_ptr<rocksdb::DB> db, OpenForReading(directory));
  const auto bound = static_cast<float>(model.spec().magnitude_bound);
  RETURN_IF_ERROR(ReadAllRows(
      *db, model, [&](size_t t, LocalRow local, const rocksdb::Slice& value) -> absl::Status {
        RowStore& store = model.tables()[t].store();
        if (static_cast<int64_t>(value.size()) != store.record_bytes()) {
          return absl::DataLossError(
              absl::StrCat("a row has ", value.size(), " bytes, must have ", store.record_bytes()));
        }
        const absl::Status set = store.SetRecord(local, {value.data(), value.size()}, bound);
        return set.ok() ? absl::OkStatus() : absl::DataLossError(set.message());
      }));
  if (hashes != nullptr && hashes->size() != model.tables().size()) {
    return absl::DataLossError(absl::StrCat("there are hash tables for ", hashes->size(),
                                            " tables, the model has ", model.tables().size()));
  }
  for (size_t t = 0; t < model.tables().size(); ++t) {
    ShardTable& table = model.tables()[t];
    const Step applied(metadata.tables[t].applied_steps);
    if (hashes == nullptr) {
      table.ResetAfterLoad(applied, model.parallelism());
    } else {
      RETURN_IF_ERROR(
          table.RestoreAfterLoad(applied, std::move((*hashes)[t]), model.parallelism()));
    }
  }
  return absl::OkStatus();
}

}  // namespace dslide::shard

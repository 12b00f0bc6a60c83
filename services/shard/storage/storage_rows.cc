#include "services/shard/storage/storage_rows.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/rows/record_digest.h"
#include "services/shard/storage/storage_database.h"

namespace dslide::shard {
namespace {

// Calls visit(global id, local id) for all rows of a table by ascending global id.
template <typename Visit>
absl::Status ForEachRow(const ShardTable& table, const Visit& visit) {
  const ShardRows& rows = table.stored().rows();
  for (int64_t base = 0; base < rows.table_rows(); base += rows.num_slots()) {
    for (const SlotId slot : rows.slots()) {
      const int64_t row = base + slot.value();
      if (row >= rows.table_rows()) break;
      const RowId global(static_cast<uint32_t>(row));
      RETURN_IF_ERROR(visit(global, rows.ToLocal(global)));
    }
  }
  return absl::OkStatus();
}

bool MayBeAbsent(const ShardTable& table, LocalRow row) {
  return table.records != nullptr || table.store().IsAbsent(row);
}

// Reads the rows from end to end and calls visit(table, local id, record bytes) for each, with an
// empty record where one is absent; they must be exactly those of the model.
template <typename Visit>
absl::Status ReadAllRows(RowDatabaseReader& reader, const ShardModel& model, const Visit& visit) {
  reader.Begin();
  for (size_t t = 0; t < model.tables().size(); ++t) {
    const ShardTable& table = model.tables()[t];
    RETURN_IF_ERROR(ForEachRow(table, [&](RowId row, LocalRow local) -> absl::Status {
      RETURN_IF_ERROR(reader.status());
      if (!reader.IsAt(t, row)) {
        if (MayBeAbsent(table, local)) return visit(t, local, absl::Span<const char>());
        return absl::DataLossError(absl::StrCat("row ", row.value(), " of table \"",
                                                table.spec.name, "\" is not where it must be"));
      }
      RETURN_IF_ERROR(visit(t, local, reader.record()));
      reader.Next();
      return absl::OkStatus();
    }));
  }
  RETURN_IF_ERROR(reader.status());
  if (reader.valid()) {
    return absl::DataLossError("there are more rows than the metadata record says");
  }
  return absl::OkStatus();
}

struct FoundRows {
  int64_t present = 0;
  int64_t absent = 0;  // that stand there with an empty record
  uint64_t digest = 0;

  void Add(RowId row, absl::Span<const char> record) {
    if (record.empty()) {
      ++absent;
    } else {
      ++present;
      digest += RecordDigest(row, record);
    }
  }
};

// Whether a record, if there is one, has the size that its table's have.
absl::Status CheckSize(const CheckpointTable& table, absl::Span<const char> record) {
  const bool any_size = table.record_bytes == 0 || record.empty();
  if (any_size || static_cast<int64_t>(record.size()) == table.record_bytes) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("table \"", table.name, "\" has a row of ", record.size(),
                                          " bytes, must have ", table.record_bytes));
}

// Reads the rows from end to end without a model: what there is of each table. Records must have
// the size that the metadata says.
absl::StatusOr<std::vector<FoundRows>> CountStoredRows(RowDatabaseReader& reader,
                                                       const CheckpointMetadata& metadata) {
  std::vector<FoundRows> found(metadata.tables.size());
  for (reader.Begin(); reader.valid(); reader.Next()) {
    const size_t table = reader.has_row_key() ? reader.table() : found.size();
    if (table >= found.size()) return absl::DataLossError("there is a row of no table");
    RETURN_IF_ERROR(CheckSize(metadata.tables[table], reader.record()));
    found[table].Add(reader.row(), reader.record());
  }
  RETURN_IF_ERROR(reader.status());
  return found;
}

absl::Status CheckTables(const CheckpointMetadata& metadata, const ShardModel& model) {
  if (metadata.tables.size() != model.tables().size()) {
    return absl::DataLossError("the metadata record lists other tables than its model has");
  }
  for (size_t i = 0; i < metadata.tables.size(); ++i) {
    const CheckpointTable& written = metadata.tables[i];
    const StoredRows& stored = model.tables()[i].stored();
    if (written.precision != model.tables()[i].spec.precision) {
      return absl::DataLossError(absl::StrCat("table \"", written.name,
                                              "\" was written in precision ",
                                              PrecisionName(written.precision), ", here it is ",
                                              PrecisionName(model.tables()[i].spec.precision)));
    }
    if (written.name != model.tables()[i].spec.name || written.rows != stored.rows().num_rows() ||
        written.record_bytes != stored.record_bytes()) {
      return absl::DataLossError(absl::StrCat("table \"", written.name, "\" was written with ",
                                              written.rows, " records of ", written.record_bytes,
                                              " bytes, here it has ", stored.rows().num_rows(),
                                              " of ", stored.record_bytes()));
    }
  }
  return absl::OkStatus();
}

// Whether so many databases belong to the metadata of the newest of them.
absl::Status CheckIncrements(const CheckpointMetadata& metadata, const RowDatabaseReader& reader) {
  if (metadata.increment + 1 == reader.databases()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the newest rows are increment ", metadata.increment,
                                          " of a checkpoint, there are ", reader.databases() - 1,
                                          " increments"));
}

absl::Status CheckReadBack(RowDatabaseReader& reader, const CheckpointMetadata& metadata) {
  ASSIGN_OR_RETURN(const std::string bytes, reader.ReadMetadata());
  if (bytes == EncodeMetadata(metadata)) return absl::OkStatus();
  return absl::DataLossError("the metadata record reads back differently");
}

// What was found against what was written.
absl::Status CheckContent(const CheckpointTable& written, int64_t present, uint64_t digest) {
  if (present == written.present && digest == written.digest) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("table \"", written.name, "\" has ", present,
                                          " rows with another content than the ", written.present,
                                          " that were written"));
}

// Of a source that was asked for all its rows.
absl::Status CheckSource(const RecordSource& records) {
  if (!records.lost()) return absl::OkStatus();
  return absl::CancelledError("the rows as they were at the cut were given up meanwhile");
}

}  // namespace

absl::StatusOr<CheckpointMetadata> WriteRows(const std::string& directory,
                                             CheckpointMetadata metadata, const ShardModel& model,
                                             RecordSource& records) {
  ASSIGN_OR_RETURN(RowDatabaseWriter writer, RowDatabaseWriter::Create(directory));
  for (size_t t = 0; t < model.tables().size(); ++t) {
    const StoredRows& stored = model.tables()[t].stored();
    uint64_t digest = 0;
    RETURN_IF_ERROR(ForEachRow(model.tables()[t], [&](RowId row, LocalRow local) {
      const absl::Span<const char> record = records.Record(t, local);
      if (record.empty()) return absl::OkStatus();  // absent, or CheckSource() says so
      digest += stored.DigestOf(local, record);
      return writer.Put(t, row, record);
    }));
    metadata.tables[t].digest = digest;
  }
  RETURN_IF_ERROR(CheckSource(records));
  RETURN_IF_ERROR(writer.Finish(EncodeMetadata(metadata)));
  return metadata;
}

absl::StatusOr<CheckpointMetadata> WriteChangedRows(const std::string& directory,
                                                    CheckpointMetadata metadata,
                                                    const ShardModel& model, RecordSource& records,
                                                    absl::Span<const ChangedRows> changed) {
  ASSIGN_OR_RETURN(RowDatabaseWriter writer, RowDatabaseWriter::Create(directory));
  for (size_t t = 0; t < model.tables().size(); ++t) {
    const StoredRows& stored = model.tables()[t].stored();
    CheckpointTable& table = metadata.tables[t];
    table.digest = table.changed_digest = 0;
    std::vector<std::pair<RowId, LocalRow>> rows;
    // What has not changed is read where it lies, in the order of memory: the digest is of all
    // rows.
    for (int64_t i = 0; i < stored.rows().num_rows(); ++i) {
      const LocalRow local(static_cast<uint32_t>(i));
      if (changed[t].Has(local)) {
        rows.emplace_back(stored.rows().ToGlobal(local), local);
      } else {
        table.digest += records.Digest(t, local);
      }
    }
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.first.value() < b.first.value(); });
    for (const auto& [row, local] : rows) {
      const absl::Span<const char> record = records.Record(t, local);
      table.changed_digest += stored.DigestOf(local, record);
      RETURN_IF_ERROR(writer.Put(t, row, record));
    }
    table.changed_rows = static_cast<int64_t>(rows.size());
    table.digest += table.changed_digest;
  }
  RETURN_IF_ERROR(CheckSource(records));
  RETURN_IF_ERROR(writer.Finish(EncodeMetadata(metadata)));
  return metadata;
}

absl::StatusOr<CheckpointMetadata> ReadCheckpointMetadata(RowDatabaseReader& reader) {
  ASSIGN_OR_RETURN(const std::string bytes, reader.ReadMetadata());
  return DecodeMetadata(bytes);
}

absl::Status VerifyRows(const std::string& directory, const CheckpointMetadata& metadata,
                        SummedFiles* files) {
  ASSIGN_OR_RETURN(RowDatabaseReader reader, RowDatabaseReader::Open({directory}, files));
  RETURN_IF_ERROR(CheckReadBack(reader, metadata));
  ASSIGN_OR_RETURN(const std::vector<FoundRows> found, CountStoredRows(reader, metadata));
  const bool is_increment = metadata.increment > 0;
  for (size_t t = 0; t < found.size(); ++t) {
    const CheckpointTable& written = metadata.tables[t];
    if (found[t].present + found[t].absent !=
            (is_increment ? written.changed_rows : written.present) ||
        found[t].digest != (is_increment ? written.changed_digest : written.digest)) {
      return absl::DataLossError(
          absl::StrCat("table \"", written.name, "\" reads back differently"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointMetadata> InspectRows(const std::vector<std::string>& directories) {
  ASSIGN_OR_RETURN(RowDatabaseReader reader, RowDatabaseReader::Open(directories));
  ASSIGN_OR_RETURN(CheckpointMetadata metadata, ReadCheckpointMetadata(reader));
  RETURN_IF_ERROR(CheckIncrements(metadata, reader));
  ASSIGN_OR_RETURN(const std::vector<FoundRows> found, CountStoredRows(reader, metadata));
  for (size_t t = 0; t < found.size(); ++t) {
    RETURN_IF_ERROR(CheckContent(metadata.tables[t], found[t].present, found[t].digest));
  }
  return metadata;
}

absl::Status ReadRows(RowDatabaseReader& reader, const CheckpointMetadata& metadata,
                      ShardModel& model, ModelHashes* hashes, LoadProgress* progress) {
  RETURN_IF_ERROR(CheckIncrements(metadata, reader));
  RETURN_IF_ERROR(CheckTables(metadata, model));
  const auto bound = static_cast<float>(model.spec().magnitude_bound);
  if (progress != nullptr) {
    for (const CheckpointTable& table : metadata.tables) progress->Expect(table.present);
  }
  RETURN_IF_ERROR(ReadAllRows(
      reader, model, [&](size_t t, LocalRow local, absl::Span<const char> record) -> absl::Status {
        if (progress != nullptr) progress->CountRow();
        RETURN_IF_ERROR(CheckSize(metadata.tables[t], record));
        const absl::Status set = model.tables()[t].stored().SetRecord(local, record, bound);
        return set.ok() ? absl::OkStatus() : absl::DataLossError(set.message());
      }));
  std::vector<Step> applied;
  for (size_t t = 0; t < model.tables().size(); ++t) {
    const int64_t present = model.tables()[t].stored().present();
    const CheckpointTable& written = metadata.tables[t];
    // The digest costs a pass over all rows, and is the caller's to compare.
    RETURN_IF_ERROR(CheckContent(written, present, written.digest));
    applied.emplace_back(written.applied_steps);
  }
  return model.FinishLoad(applied, hashes);
}

}  // namespace dslide::shard

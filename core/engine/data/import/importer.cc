#include "core/engine/data/import/importer.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/engine/data/import/name_counts.h"
#include "core/engine/data/import/point_spill.h"
#include "core/engine/data/import/point_writer.h"
#include "core/engine/data/import/record_reader.h"
#include "core/engine/data/text/tokenizer_json.h"
#include "core/system/content_hash.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// Rows that are cut at once: enough for all threads, few enough to lie in the cache.
constexpr size_t kRowsAtOnce = 1024;

// One row, cut.
struct CutRow {
  ImportRecord record;
  bool is_test = false;
};

// Whether a row is for testing: by its content alone.
bool IsTestRow(const ImportRecord& record, double fraction) {
  if (fraction <= 0) return false;
  uint64_t hash = 0;
  for (const std::string& text : record.texts) hash = HashContent(hash, text);
  for (const auto& [name, value] : record.features) {
    hash = HashContent(hash, absl::StrCat(name, ":", value));
  }
  return static_cast<double>(hash >> 11) * 0x1p-53 < fraction;
}

// Texts become features: how often each token occurs, in the order of the first occurrences.
void CutTexts(const Tokenizer& tokenizer, ImportRecord* record) {
  std::vector<std::string> tokens;
  for (const std::string& text : record->texts) tokenizer.Cut(text, &tokens);
  record->texts.clear();
  absl::flat_hash_map<absl::string_view, size_t> places;
  std::vector<std::pair<std::string, float>> features;
  places.reserve(tokens.size());
  for (const std::string& token : tokens) {
    const auto [place, is_new] = places.emplace(token, features.size());
    if (is_new) features.emplace_back(token, 0.0f);
    features[place->second].second += 1.0f;
  }
  record->features.insert(record->features.end(), std::make_move_iterator(features.begin()),
                          std::make_move_iterator(features.end()));
}

// Errors: InvalidArgument when a set is there that may not be replaced; system errors.
absl::Status PrepareOutput(const ImportOptions& options) {
  std::error_code error;
  if (!options.overwrite && fs::exists(options.output_dir + "/train.txt", error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.output_dir, " holds a data set already (train.txt): name another ",
                     "--output, or pass --overwrite to replace it"));
  }
  fs::create_directories(options.output_dir, error);
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--output ", options.output_dir, " cannot be made: ", error.message()));
}

// An older set must not be taken for a part of the new one.
absl::Status RemoveOlderSet(const std::string& folder) {
  for (const char* name : {"train.txt", "test.txt", kTokenizerFile}) {
    std::error_code error;
    fs::remove(fs::path(folder) / name, error);
    if (!error) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(folder, "/", name, " cannot be replaced: ", error.message()));
  }
  return absl::OkStatus();
}

class Importer {
 public:
  // keep_all: also rows without labels.
  Importer(const ImportOptions& options, bool keep_all, PointSpill spill)
      : options_(options),
        keep_all_(keep_all),
        tokenizer_(options.tokenizer),
        label_fields_(options.source.label_separator),
        spill_(std::move(spill)) {}

  absl::Status ReadFile(const std::string& path, bool is_test);
  absl::StatusOr<ImportReport> Write();
  absl::Status WriteForModel(const std::string& path);

 private:
  absl::Status AddRows(std::vector<CutRow>* rows);
  absl::Status AddRow(const CutRow& row);
  absl::Status CheckParts() const;

  const ImportOptions& options_;
  const bool keep_all_;
  const Tokenizer tokenizer_;
  LabelFields label_fields_;
  PointSpill spill_;
  NameCounts features_;
  NameCounts labels_;
  ImportReport report_;
};

absl::Status Importer::ReadFile(const std::string& path, bool is_test) {
  DataFileOptions file_options;
  file_options.temp_dir = options_.output_dir;  // what is read is written there, too
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path, file_options));
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader,
                   OpenRecords(file, options_.source, &label_fields_));
  std::vector<CutRow> rows;
  for (bool has_more = true; has_more;) {
    CutRow row;
    ASSIGN_OR_RETURN(has_more, reader->Next(&row.record));
    if (has_more) {
      row.is_test = is_test || IsTestRow(row.record, options_.test_fraction);
      rows.push_back(std::move(row));
    }
    if (rows.size() < kRowsAtOnce && has_more) continue;
    RETURN_IF_ERROR(AddRows(&rows));
    if (options_.progress) options_.progress(path, reader->bytes_read(), file.size());
    if (options_.stop_requested && options_.stop_requested()) {
      return absl::CancelledError(absl::StrCat("the import of ", path, " was interrupted"));
    }
  }
  return absl::OkStatus();
}

absl::Status Importer::AddRows(std::vector<CutRow>* rows) {
  ParallelFor(options_.parallelism, static_cast<int64_t>(rows->size()), 16, [&](int64_t i, int) {
    CutTexts(tokenizer_, &(*rows)[static_cast<size_t>(i)].record);
  });
  for (const CutRow& row : *rows) RETURN_IF_ERROR(AddRow(row));
  rows->clear();
  return absl::OkStatus();
}

absl::Status Importer::AddRow(const CutRow& row) {
  ++report_.rows;
  if (row.record.labels.empty() && !keep_all_) {
    ++(row.is_test ? report_.test : report_.train).without_labels;
    return absl::OkStatus();
  }
  SpilledPoint point;
  point.is_test = row.is_test;
  for (const std::string& label : row.record.labels) point.labels.push_back(labels_.Number(label));
  std::sort(point.labels.begin(), point.labels.end());
  point.labels.erase(std::unique(point.labels.begin(), point.labels.end()), point.labels.end());
  for (const auto& [name, value] : row.record.features) {
    point.features.emplace_back(features_.Number(name), value);
  }
  if (!row.is_test) {
    for (const uint32_t label : point.labels) labels_.Count(label);
    for (const auto& [feature, value] : point.features) features_.Count(feature);
  }
  return spill_.Add(point);
}

absl::StatusOr<ImportReport> Importer::Write() {
  const KnownNames& known = options_.known;
  const NameCounts::Ranking features =
      features_.Rank(options_.min_count, options_.max_features, known.features);
  const NameCounts::Ranking labels =
      labels_.Rank(options_.min_label_count, kMaxTableRows, known.labels);
  report_.features = static_cast<int64_t>(features.names.size());
  report_.labels = static_cast<int64_t>(labels.names.size());
  report_.new_features = report_.features - static_cast<int64_t>(known.features.size());
  report_.new_labels = report_.labels - static_cast<int64_t>(known.labels.size());
  report_.features_left_out = features.left_out;
  report_.labels_left_out = labels.left_out;
  report_.suspected_separator = label_fields_.SuspectedSeparator();
  const PointWriter points(features.ids, labels.ids, /*keep_all=*/false);
  RETURN_IF_ERROR(points.Count(&spill_, &report_));
  RETURN_IF_ERROR(CheckParts());
  const std::string& folder = options_.output_dir;
  RETURN_IF_ERROR(RemoveOlderSet(folder));
  RETURN_IF_ERROR(WriteNameList(folder + "/features.txt", features.names));
  RETURN_IF_ERROR(WriteNameList(folder + "/labels.txt", labels.names));
  if (options_.source.format != ImportFormat::kSvmlight) {
    ASSIGN_OR_RETURN(FileOutput file,
                     FileOutput::Create(absl::StrCat(folder, "/", kTokenizerFile)));
    RETURN_IF_ERROR(file.Append(TokenizerToJson(options_.tokenizer)));
    RETURN_IF_ERROR(file.Commit());
  }
  if (report_.test.points > 0) {
    RETURN_IF_ERROR(points.Write(&spill_, report_, /*is_test=*/true, folder + "/test.txt"));
  }
  // The last: its presence says that the others are there.
  RETURN_IF_ERROR(points.Write(&spill_, report_, /*is_test=*/false, folder + "/train.txt"));
  return report_;
}

absl::Status Importer::WriteForModel(const std::string& path) {
  if (report_.rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(options_.files.front(), " has no row"));
  }
  const KnownNames& names = options_.known;
  const std::vector<uint32_t> features = features_.Match(names.features);
  const std::vector<uint32_t> labels = labels_.Match(names.labels);
  ImportReport report;
  report.train.points = report_.rows;
  report.features = static_cast<int64_t>(names.features.size());
  report.labels = static_cast<int64_t>(names.labels.size());
  return PointWriter(features, labels, /*keep_all=*/true)
      .Write(&spill_, report, /*is_test=*/false, path);
}

absl::Status Importer::CheckParts() const {
  const ImportPart& train = report_.train;
  if (train.points == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no point to train on is left of ", report_.rows, " rows: ", train.without_labels,
        " have no label that is kept, ", train.without_features,
        " no word that is kept; lower --min-count or --min-label-count, or name other columns"));
  }
  const bool wants_test = !options_.test_files.empty() || options_.test_fraction > 0;
  if (!wants_test || report_.test.points > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "no point to test on: ", report_.test.without_labels,
      " rows of the test part have no label that training has; raise --test-fraction, name another "
      "--test file, or leave both out"));
}

}  // namespace

absl::Status ImportOptions::Validate() const {
  RETURN_IF_ERROR(source.Validate());
  RETURN_IF_ERROR(tokenizer.Validate());
  const auto check = [](absl::string_view field, int64_t value, int64_t max) {
    if (value >= 1 && value <= max) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(field, " ", value, " is outside [1, ", max, "]"));
  };
  RETURN_IF_ERROR(check("min-count", min_count, kMaxTableRows));
  RETURN_IF_ERROR(check("min-label-count", min_label_count, kMaxTableRows));
  RETURN_IF_ERROR(check("max-features", max_features, kMaxTableRows));
  if (!(test_fraction >= 0 && test_fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("test-fraction ", test_fraction, " is outside [0, 1)"));
  }
  if (files.empty()) return absl::InvalidArgumentError("no file to import");
  if (output_dir.empty()) return absl::InvalidArgumentError("no directory to import to");
  return absl::OkStatus();
}

absl::StatusOr<ImportReport> ImportData(const ImportOptions& options) {
  RETURN_IF_ERROR(options.Validate());
  RETURN_IF_ERROR(PrepareOutput(options));
  ASSIGN_OR_RETURN(PointSpill spill, PointSpill::Create(options.output_dir));
  Importer importer(options, /*keep_all=*/false, std::move(spill));
  for (const std::string& path : options.files) {
    RETURN_IF_ERROR(importer.ReadFile(path, /*is_test=*/false));
  }
  for (const std::string& path : options.test_files) {
    RETURN_IF_ERROR(importer.ReadFile(path, /*is_test=*/true));
  }
  return importer.Write();
}

absl::Status ImportForModel(const ImportOptions& options, const std::string& path) {
  RETURN_IF_ERROR(options.Validate());
  ASSIGN_OR_RETURN(PointSpill spill, PointSpill::Create(options.output_dir));
  Importer importer(options, /*keep_all=*/true, std::move(spill));
  for (const std::string& file : options.files) {
    RETURN_IF_ERROR(importer.ReadFile(file, /*is_test=*/false));
  }
  return importer.WriteForModel(path);
}

}  // namespace dslide

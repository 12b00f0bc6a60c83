#include "client/cli/train/imported_data.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/terminal.h"
#include "client/cli/source/remote_data.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/engine/data/text/tokenizer_json.h"

namespace dslide::cli {
namespace {

constexpr absl::Duration kNoteEvery = absl::Seconds(3);  // often enough to be seen to live

// The name without what says how it is compressed, or the query of a URL; in lower case.
std::string PlainName(const std::string& path) {
  std::string name = absl::AsciiStrToLower(path);
  if (absl::StartsWith(name, "http")) name.resize(std::min(name.find('?'), name.size()));
  for (const absl::string_view suffix : {".gz", ".xz", ".zst", ".lz4"}) {
    if (!absl::EndsWith(name, suffix)) continue;
    name.resize(name.size() - suffix.size());
    break;
  }
  return name;
}

// Vanishes with the object.
class ScopedFolder {
 public:
  static absl::StatusOr<std::unique_ptr<ScopedFolder>> Create() {
    const char* parent = std::getenv("TMPDIR");
    const bool is_set = parent != nullptr && *parent != '\0';
    std::string path = absl::StrCat(is_set ? parent : "/tmp", "/dslide-import-XXXXXX");
    if (mkdtemp(path.data()) != nullptr) {
      return std::unique_ptr<ScopedFolder>(new ScopedFolder(std::move(path)));
    }
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot make ", path, " (set TMPDIR to choose another folder)"));
  }
  ~ScopedFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit ScopedFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

// Points that were imported from `source`, which errors name.
absl::StatusOr<std::unique_ptr<Dataset>> OpenPart(const std::string& path,
                                                  const std::string& source,
                                                  Parallelism parallelism) {
  SparseDatasetOptions sparse;
  sparse.parallelism = parallelism;
  sparse.count_document_frequency = true;
  sparse.shown_path = source;
  ASSIGN_OR_RETURN(std::unique_ptr<SparseDataset> data, SparseDataset::Open(path, sparse));
  return std::unique_ptr<Dataset>(std::move(data));
}

// Requires that the file's name says its format.
absl::StatusOr<ImportOptions> OptionsOf(const std::string& path, ImportFlags flags) {
  flags.options.files = {path};
  flags.options.source.format = *ImportFormatOf(path);
  ASSIGN_OR_RETURN(ImportOptions options, ResolveImport(flags));
  // Its name says so, and a comma that was not asked for is the default.
  if (absl::EndsWith(PlainName(path), ".tsv") && options.source.delimiter == ",") {
    options.source.delimiter = "tab";
  }
  options.stop_requested = &InterruptGuard::Interrupted;
  return options;
}

std::string ImportNote(const ImportReport& report, const KnownNames& known) {
  std::string note = absl::StrCat("Imported ", WithThousands(report.rows),
                                  " rows: ", WithThousands(report.train.points), " training and ",
                                  WithThousands(report.test.points), " test points");
  if (!known.labels.empty()) {
    absl::StrAppend(&note, "; new to the model: ", WithThousands(report.new_labels), " labels, ",
                    WithThousands(report.new_features), " features");
  }
  return note;
}

}  // namespace

std::optional<ImportFormat> ImportFormatOf(const std::string& path) {
  static constexpr std::pair<absl::string_view, ImportFormat> kEnds[] = {
      {".csv", ImportFormat::kCsv},           {".tsv", ImportFormat::kCsv},
      {".jsonl", ImportFormat::kJsonLines},   {".ndjson", ImportFormat::kJsonLines},
      {".json", ImportFormat::kJsonLines},    {".svm", ImportFormat::kSvmlight},
      {".svmlight", ImportFormat::kSvmlight}, {".libsvm", ImportFormat::kSvmlight}};
  const std::string name = PlainName(path);
  for (const auto& [end, format] : kEnds) {
    if (absl::EndsWith(name, end)) return format;
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenImportedFor(const StoredModel& model,
                                                         const std::string& path,
                                                         const ImportFlags& flags,
                                                         Parallelism parallelism) {
  ImportFlags kept = flags;
  kept.continued = &model;
  ASSIGN_OR_RETURN(const LocalData local, FetchData(path));
  ASSIGN_OR_RETURN(ImportOptions options, OptionsOf(local.path, kept));
  // Points of a file have the shape of the model, also for rows that nobody has named.
  options.known = {.features = model.features.names, .labels = model.labels};
  ASSIGN_OR_RETURN(const std::unique_ptr<ScopedFolder> folder, ScopedFolder::Create());
  options.source.labels_optional = true;
  options.output_dir = folder->path();
  options.parallelism = parallelism;
  const std::string points = folder->path() + "/points.txt";
  RETURN_IF_ERROR(ShownAs(local, ImportForModel(options, points)));
  return OpenPart(points, local.shown, parallelism);
}

absl::StatusOr<ImportedData> OpenImported(const std::string& data, const std::string& eval,
                                          const ImportFlags& flags, Parallelism parallelism,
                                          bool quiet) {
  const std::optional<ImportFormat> format = ImportFormatOf(data);
  if (!format.has_value() || (!eval.empty() && ImportFormatOf(eval) != format)) {
    return absl::InvalidArgumentError(
        absl::StrCat(data, " and ", eval,
                     " are of different forms: give two files of one form, or "
                     "make a data set of them first: dslide data import"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ScopedFolder> folder, ScopedFolder::Create());
  ASSIGN_OR_RETURN(const LocalData local, FetchData(data));
  ASSIGN_OR_RETURN(ImportOptions options, OptionsOf(local.path, flags));
  LocalData test;
  if (!eval.empty()) {
    ASSIGN_OR_RETURN(test, FetchData(eval));
    options.test_files = {test.path};
  }
  options.output_dir = folder->path();
  options.parallelism = parallelism;
  if (!quiet) options.progress = ImportProgress();
  const absl::StatusOr<ImportReport> report = ImportData(options);
  if (!report.ok()) return ShownAs(local, ShownAs(test, report.status()));
  if (!quiet) {
    PrintNote(ImportNote(*report, options.known));
  }
  NoteSuspectedSeparator(*report);
  ImportedData imported;
  ASSIGN_OR_RETURN(imported.tokenizer, FindTokenizer(folder->path() + "/train.txt"));
  ASSIGN_OR_RETURN(imported.data,
                   OpenPart(folder->path() + "/train.txt", local.shown, parallelism));
  if (eval.empty()) return imported;
  ASSIGN_OR_RETURN(imported.eval, OpenPart(folder->path() + "/test.txt", test.shown, parallelism));
  return imported;
}

std::function<void(const std::string& path, int64_t done_bytes, int64_t total_bytes)>
ImportProgress() {
  return [next = SteadyClock().Now() + kNoteEvery](const std::string& path, int64_t done_bytes,
                                                   int64_t total_bytes) mutable {
    const absl::Duration now = SteadyClock().Now();
    if (now < next) return;
    next = now + kNoteEvery;
    PrintNote(absl::StrCat(path, ": ", 100 * done_bytes / std::max<int64_t>(total_bytes, 1),
                           " % of ", ReadableBytes(static_cast<double>(total_bytes)), " read"));
  };
}

void NoteSuspectedSeparator(const ImportReport& report) {
  if (report.suspected_separator.empty()) return;
  PrintNote(absl::StrCat("dslide: warning: most fields of labels hold \"",
                         report.suspected_separator,
                         "\", and each was taken as one label: if they are several, pass ",
                         "--label-separator \"", report.suspected_separator, "\""));
}

}  // namespace dslide::cli

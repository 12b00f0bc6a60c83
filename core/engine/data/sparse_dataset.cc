#include "core/engine/data/sparse_dataset.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/data/name_list.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/sparse_line.h"
#include "core/system/content_hash.h"
#include "core/system/process/memory_limit.h"

namespace dslide {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;
constexpr int64_t kFirstPointLine = 2;  // lines count from 1 and the header is the first

// The line that starts at `begin`, without its line end.
absl::string_view LineAt(absl::string_view text, uint64_t begin) {
  const char* start = text.data() + begin;
  const size_t rest = text.size() - begin;
  const void* stop = memchr(start, '\n', rest);
  size_t length = stop == nullptr ? rest : static_cast<const char*>(stop) - start;
  if (length > 0 && start[length - 1] == '\r') --length;
  return absl::string_view(start, length);
}

bool IsBlankLine(absl::string_view line) {
  return line.find_first_not_of(" \t\r") == absl::string_view::npos;
}

absl::StatusOr<SparseHeader> ParseHeader(const std::string& path, absl::string_view text) {
  const absl::string_view line = text.empty() ? text : LineAt(text, 0);
  constexpr int64_t kMaxPoints = int64_t{1} << 48;
  struct Field {
    const char* name;
    int64_t max;
    int64_t value;
  } fields[] = {{"number of points", kMaxPoints, 0},
                {"number of features", kMaxTableRows, 0},
                {"number of labels", kMaxTableRows, 0}};
  size_t at = 0;
  for (Field& field : fields) {
    at = std::min(line.find_first_not_of(" \t", at), line.size());
    const size_t stop = std::min(line.find_first_of(" \t", at), line.size());
    const absl::string_view piece = line.substr(at, stop - at);
    const auto [end, error] =
        std::from_chars(piece.data(), piece.data() + piece.size(), field.value);
    if (piece.empty() || error != std::errc() || end != piece.data() + piece.size() ||
        field.value < 1 || field.value > field.max) {
      return ParseError(
          path, 1,
          {static_cast<int64_t>(at) + 1, piece.empty() ? "the end of the line" : QuoteFound(piece),
           absl::StrCat("the ", field.name, " in [1, ", field.max,
                        "] (the first line is: points features labels)")});
    }
    at = stop;
  }
  const size_t extra = line.find_first_not_of(" \t", at);
  if (extra != absl::string_view::npos) {
    return ParseError(path, 1,
                      {static_cast<int64_t>(extra) + 1, QuoteFound(line.substr(extra)),
                       "nothing after the number of labels"});
  }
  return SparseHeader{fields[0].value, fields[1].value, fields[2].value};
}

// Whoever counts needs a number for each id and thread; a wrong first line is the likely reason for
// more than half of the memory that there is.
absl::Status CheckCountable(const std::string& path, const SparseHeader& header,
                            const SparseDatasetOptions& options) {
  if (!options.count_document_frequency) return absl::OkStatus();
  const int64_t copies = std::max(1, options.parallelism.threads) + 1;
  const int64_t needed =
      (header.features + header.labels) * copies * static_cast<int64_t>(sizeof(int64_t));
  const int64_t limit = MemoryLimitBytes();
  if (needed <= limit / 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ":1: ", header.features, " features and ", header.labels,
      " labels: counting them takes ", needed >> 20, " MiB with ", options.parallelism.threads,
      " threads, and this process may use ", limit >> 20,
      " MiB: mend the first line (points features labels), hash ids into fewer, or give fewer "
      "--threads"));
}

// What one thread found in the lines that start in one chunk of the text.
struct ChunkScan {
  std::vector<uint64_t> starts;       // of its lines, up to and including a malformed one
  std::optional<LineError> error;     // of the last line of `starts`
  std::optional<size_t> first_empty;  // index in `starts`
};

struct ThreadScratch {
  SparseBatch batch;
  std::vector<int64_t> document_frequency;
};

// Where the first line at or after `from` starts; `limit` when none starts before it.
int64_t FirstLineStart(absl::string_view text, int64_t from, int64_t limit) {
  const char* place = text.data() + from - 1;  // a line end just before `from` counts
  const void* stop = memchr(place, '\n', static_cast<size_t>(limit - from));
  if (stop == nullptr) return limit;
  return static_cast<const char*>(stop) - text.data() + 1;
}

void ScanChunk(absl::string_view text, int64_t begin, int64_t end, const SparseLineParser& parser,
               ThreadScratch* scratch, ChunkScan* scan) {
  int64_t at = FirstLineStart(text, begin, end);
  while (at < end) {
    const absl::string_view line = LineAt(text, static_cast<uint64_t>(at));
    scan->starts.push_back(static_cast<uint64_t>(at));
    if (line.empty()) {
      if (!scan->first_empty) scan->first_empty = scan->starts.size() - 1;
    } else {
      LineError error;
      scratch->batch.Clear();
      if (!parser.Parse(line, &scratch->batch, &error)) {
        scan->error = std::move(error);
        return;
      }
      if (!scratch->document_frequency.empty()) {
        for (const RowId f : scratch->batch.features) ++scratch->document_frequency[f.value()];
      }
    }
    const char* next = line.data() + line.size();
    const char* text_end = text.data() + text.size();
    if (next != text_end && *next == '\r') ++next;
    if (next != text_end) ++next;
    at = next - text.data();
    if (next == text_end) return;
  }
}

// Turns the scans into the first error in file order, or into the starts of all points.
absl::Status MergeScans(const std::string& path, absl::string_view text, const SparseHeader& header,
                        std::vector<ChunkScan>* scans, std::vector<uint64_t>* line_starts) {
  size_t total = 0;
  for (const ChunkScan& scan : *scans) total += scan.starts.size();
  line_starts->reserve(total);
  std::optional<std::pair<int64_t, LineError>> first;  // by point index
  for (ChunkScan& scan : *scans) {
    const int64_t base = static_cast<int64_t>(line_starts->size());
    if (scan.first_empty) {
      first.emplace(base + static_cast<int64_t>(*scan.first_empty),
                    LineError{1, "an empty line", "a point"});
    } else if (scan.error) {
      first.emplace(base + static_cast<int64_t>(scan.starts.size()) - 1, *scan.error);
    }
    line_starts->insert(line_starts->end(), scan.starts.begin(), scan.starts.end());
    std::vector<uint64_t>().swap(scan.starts);
    if (first && (first->first < header.points || scan.error)) break;
  }
  if (first && first->first < header.points) {
    return ParseError(path, first->first + kFirstPointLine, first->second);
  }
  const int64_t lines = static_cast<int64_t>(line_starts->size());
  for (int64_t i = header.points; i < lines; ++i) {
    const absl::string_view line = LineAt(text, (*line_starts)[static_cast<size_t>(i)]);
    if (IsBlankLine(line)) continue;
    return ParseError(
        path, i + kFirstPointLine,
        {1, QuoteFound(line),
         absl::StrCat("the end of the file (the header says ", header.points, " points)")});
  }
  if (lines < header.points) {
    return ParseError(
        path, lines + kFirstPointLine,
        {1, "the end of the file",
         absl::StrCat("point ", lines + 1, " of ", header.points, " that the header says")});
  }
  line_starts->resize(static_cast<size_t>(header.points));
  line_starts->shrink_to_fit();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SparseDataset>> SparseDataset::Open(
    const std::string& path, const SparseDatasetOptions& options) {
  std::unique_ptr<SparseDataset> dataset(new SparseDataset());
  dataset->path_ = options.shown_path.empty() ? path : options.shown_path;
  ASSIGN_OR_RETURN(dataset->file_, DataFile::Open(path, options.file));
  dataset->text_ = dataset->file_.bytes();
  RETURN_IF_ERROR(dataset->Index(options));
  ASSIGN_OR_RETURN(dataset->feature_names_, FindNames(options.feature_names, path, "features.txt",
                                                      dataset->header_.features, &dataset->notes_));
  ASSIGN_OR_RETURN(dataset->label_names_, FindNames(options.label_names, path, "labels.txt",
                                                    dataset->header_.labels, &dataset->notes_));
  return dataset;
}

absl::StatusOr<std::unique_ptr<SparseDataset>> SparseDataset::FromText(
    const std::string& name, std::string text, const SparseDatasetOptions& options) {
  std::unique_ptr<SparseDataset> dataset(new SparseDataset());
  dataset->path_ = name;
  dataset->owned_ = std::move(text);
  dataset->text_ = dataset->owned_;
  RETURN_IF_ERROR(dataset->Index(options));
  return dataset;
}

absl::Status SparseDataset::Index(const SparseDatasetOptions& options) {
  ASSIGN_OR_RETURN(header_, ParseHeader(path_, text_));
  // Line ends at the end of the file end no point.
  const size_t last = text_.find_last_not_of("\r\n");
  text_ = text_.substr(0, last + 1);
  const absl::string_view text = text_;
  const size_t header_end = std::min(text.find('\n'), text.size() - 1) + 1;
  const int64_t body = static_cast<int64_t>(text.size() - header_end);
  const int64_t num_chunks = (body + kChunkBytes - 1) / kChunkBytes;

  RETURN_IF_ERROR(CheckCountable(path_, header_, options));
  const SparseLineParser parser(header_.features, header_.labels);
  std::vector<ThreadScratch> scratch(static_cast<size_t>(std::max(1, options.parallelism.threads)));
  if (options.count_document_frequency) {
    for (ThreadScratch& s : scratch) {
      s.document_frequency.assign(static_cast<size_t>(header_.features), 0);
    }
  }
  std::vector<ChunkScan> scans(static_cast<size_t>(num_chunks));
  ParallelFor(options.parallelism, num_chunks, 1, [&](int64_t chunk, int thread) {
    const int64_t begin = static_cast<int64_t>(header_end) + chunk * kChunkBytes;
    const int64_t end = std::min<int64_t>(begin + kChunkBytes, static_cast<int64_t>(text.size()));
    ScanChunk(text, begin, end, parser, &scratch[static_cast<size_t>(thread)],
              &scans[static_cast<size_t>(chunk)]);
  });
  RETURN_IF_ERROR(MergeScans(path_, text, header_, &scans, &line_starts_));

  if (options.count_document_frequency) {
    document_frequency_ = std::move(scratch[0].document_frequency);
    for (size_t t = 1; t < scratch.size(); ++t) {
      for (size_t f = 0; f < document_frequency_.size(); ++f) {
        document_frequency_[f] += scratch[t].document_frequency[f];
      }
    }
  }
  fingerprint_ = HashContentSample(DeriveKey(DeriveKey(static_cast<uint64_t>(header_.points),
                                                       static_cast<uint64_t>(header_.features)),
                                             static_cast<uint64_t>(header_.labels)),
                                   text);
  return absl::OkStatus();
}

absl::Status SparseDataset::ReadSamples(absl::Span<const int64_t> points,
                                        SparseBatch* batch) const {
  batch->Clear();
  const SparseLineParser parser(header_.features, header_.labels);
  for (const int64_t point : points) {
    if (point < 0 || point >= header_.points) {
      batch->Clear();
      return absl::OutOfRangeError(
          absl::StrCat("point ", point, " outside ", path_, " [0, ", header_.points, ")"));
    }
    LineError error;
    const absl::string_view line = LineAt(text_, line_starts_[static_cast<size_t>(point)]);
    if (!parser.Parse(line, batch, &error)) {
      batch->Clear();
      return absl::DataLossError(absl::StrCat(
          ParseError(path_, point + kFirstPointLine, error).message(),
          "; the file was well-formed when it was opened: it changed while it was read"));
    }
  }
  return absl::OkStatus();
}

absl::string_view SparseDataset::FeatureName(int64_t feature) const {
  if (feature < 0 || feature >= static_cast<int64_t>(feature_names_.size())) return "";
  return feature_names_[static_cast<size_t>(feature)];
}

absl::string_view SparseDataset::LabelName(int64_t label) const {
  if (label < 0 || label >= static_cast<int64_t>(label_names_.size())) return "";
  return label_names_[static_cast<size_t>(label)];
}

absl::Status CheckSameShape(const Dataset& train, const Dataset& eval) {
  const auto differ = [&](absl::string_view what, int64_t in_train, int64_t in_eval) {
    return absl::InvalidArgumentError(absl::StrCat(eval.path(), " has ", in_eval, " ", what, ", ",
                                                   train.path(), " has ", in_train,
                                                   "; they are not parts of one data set"));
  };
  if (train.num_features() != eval.num_features()) {
    return differ("features", train.num_features(), eval.num_features());
  }
  if (train.num_labels() != eval.num_labels()) {
    return differ("labels", train.num_labels(), eval.num_labels());
  }
  return absl::OkStatus();
}

}  // namespace dslide

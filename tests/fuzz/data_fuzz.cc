// Outside bytes through every decoder of the data layer: no input may crash, and what is accepted
// must keep the promises of the headers. The first byte chooses the decoder.

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/import/record_reader.h"
#include "core/engine/data/sources/contents_index.h"
#include "core/engine/data/sources/debian_set.h"
#include "core/engine/data/sources/package_index.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/engine/data/sparse_line.h"
#include "core/engine/data/text/description_words.h"
#include "core/engine/data/text/tokenizer.h"
#include "core/engine/data/text/unicode.h"
#include "core/engine/data/text_dataset.h"
#include "core/engine/data/transform.h"

namespace dslide {
namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

// The bytes as a file that has a path for as long as this object lives.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view bytes) : fd_(memfd_create("fuzz", 0)) {
    Require(write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "a memory file takes all bytes");
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  int fd_;
};

// Every promise of SparseBatch, for ids below the bounds.
void CheckBatch(const SparseBatch& batch, int64_t features, int64_t labels) {
  Require(batch.features.size() == batch.values.size(), "one value per feature");
  for (int64_t s = 0; s < batch.samples(); ++s) {
    int64_t last = -1;
    for (const RowId f : batch.FeaturesOf(s)) {
      Require(f.value() > last && f.value() < features, "features ascend within bounds");
      last = f.value();
    }
    last = -1;
    for (const RowId l : batch.LabelsOf(s)) {
      Require(l.value() > last && l.value() < labels, "labels ascend within bounds");
      last = l.value();
    }
  }
  for (const float v : batch.values) Require(std::isfinite(v), "values are finite");
}

void CheckDataset(const Dataset& data) {
  std::vector<int64_t> points(static_cast<size_t>(data.num_points()));
  std::iota(points.begin(), points.end(), 0);
  SparseBatch batch;
  Require(data.ReadSamples(points, &batch).ok(), "what was opened can be read");
  Require(batch.samples() == data.num_points(), "every point is one sample");
  CheckBatch(batch, data.num_features(), data.num_labels());
}

void FuzzLine(absl::string_view bytes) {
  const SparseLineParser parser(1000, 100);
  SparseBatch batch;
  LineError error;
  const bool good = parser.Parse(bytes, &batch, &error);
  Require(batch.samples() == (good ? 1 : 0), "a good line is one sample");
  CheckBatch(batch, 1000, 100);
  Require(good || (error.column >= 1 && error.column <= static_cast<int64_t>(bytes.size()) + 1 &&
                   !error.found.empty() && !error.expected.empty()),
          "an error has a place in the line");
}

void FuzzSparse(absl::string_view bytes) {
  SparseDatasetOptions one;
  const auto data = SparseDataset::FromText("fuzz", std::string(bytes), one);
  if (data.ok()) CheckDataset(**data);
}

void FuzzText(absl::string_view bytes) {
  const MemoryFile file(bytes);
  TextDatasetOptions options;
  options.min_count = 1 + static_cast<int64_t>(bytes.size() % 2);
  options.file.temp_dir = "/dev/shm";
  const auto data = TextDataset::Open(file.path(), options);
  if (data.ok()) CheckDataset(**data);
}

void FuzzFiles(absl::string_view bytes) {
  const MemoryFile file(bytes);
  DataFileOptions options;
  options.temp_dir = "/dev/shm";
  (void)DataFile::Open(file.path(), options).status();
  (void)FeatureStats::Load(file.path()).status();
  (void)Vocabulary::Load(file.path()).status();
}

void FuzzPackages(absl::string_view bytes) {
  std::vector<PackageParagraph> packages;
  (void)ParsePackageIndex("fuzz", bytes, &packages);
  for (const PackageParagraph& package : packages) {
    Require(!package.name.empty() && !package.source.empty(), "a package has a name");
    for (const std::string& name : package.dependencies) {
      Require(!name.empty(), "a dependency has a name");
    }
  }
  for (const std::string& word : DescriptionWords(bytes)) {
    Require(!word.empty() && word.front() != '.' && word.back() != '.', "words are stripped");
  }
  const auto check = [&](absl::string_view name, absl::string_view package) {
    Require(!name.empty() && !package.empty(), "a file and its package have names");
    Require(name.data() >= bytes.data() && package.data() + package.size() <= bytes.end(),
            "names are views into the text");
  };
  (void)ParseContentsIndex("fuzz", bytes, check);
}

// Rows of other programs, whose texts are cut.
void FuzzImport(absl::string_view bytes) {
  if (bytes.empty()) return;
  const MemoryFile memory(bytes.substr(1));
  const auto file = DataFile::Open(memory.path());
  if (!file.ok()) return;
  const auto choice = static_cast<unsigned char>(bytes.front());
  ImportSource source = {.format = static_cast<ImportFormat>(choice % 4), .has_header = false};
  const bool is_csv = source.format == ImportFormat::kCsv;
  source.text_columns = {is_csv ? "1" : "text"};
  source.label_columns = {is_csv ? "2" : "labels"};
  source.has_quotes = choice % 8 < 4;
  LabelFields fields(choice % 16 < 8 ? ";" : "");
  const auto reader = OpenRecords(*file, source, &fields);
  if (!reader.ok()) return;
  ImportRecord record;
  const Tokenizer tokenizer({.kind = static_cast<TokenizerKind>(choice / 64)});
  for (auto more = (*reader)->Next(&record); more.ok() && *more; more = (*reader)->Next(&record)) {
    Require((*reader)->bytes_read() <= file->size(), "a reader stays in its file");
    for (const std::string& label : record.labels) {
      Require(!label.empty() && label.find('\n') == std::string::npos, "a label is a name");
    }
    std::vector<std::string> tokens;
    for (const std::string& text : record.texts) tokenizer.Cut(text, &tokens);
    for (const std::string& token : tokens) {
      Require(!token.empty() && token.find_first_of("\t\r\n") == std::string::npos &&
                  FindMalformed(token) == std::string::npos,
              "a token is a name");
    }
  }
}

}  // namespace
}  // namespace dslide

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch ((data[0] + 1) % 6) {  // 'A' is the first, as the corpus has it
    case 0:
      dslide::FuzzLine(bytes);
      break;
    case 1:
      dslide::FuzzSparse(bytes);
      break;
    case 2:
      dslide::FuzzText(bytes);
      break;
    case 3:
      dslide::FuzzFiles(bytes);
      break;
    case 4:
      dslide::FuzzPackages(bytes);
      break;
    default:
      dslide::FuzzImport(bytes);
  }
  return 0;
}

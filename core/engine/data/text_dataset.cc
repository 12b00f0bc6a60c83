#include "core/engine/data/text_dataset.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/engine/data/parse_error.h"
#include "core/system/content_hash.h"

namespace dslide {
namespace {

constexpr int64_t kTextChunkBytes = 1 << 20;
constexpr int64_t kChunksPerThread = 4;  // encoded together, then written in order
constexpr uint32_t kLineStart = uint32_t{1} << 31;
constexpr uint32_t kIdMask = kLineStart - 1;

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Calls on_word(word) and on_line_end() for what starts in [begin, end) of the text, in order. A
// word that starts before `end` is seen whole.
template <typename OnWord, typename OnLineEnd>
void ScanWords(absl::string_view text, int64_t begin, int64_t end, const OnWord& on_word,
               const OnLineEnd& on_line_end) {
  int64_t at = begin;
  if (at > 0 && !IsSpace(text[static_cast<size_t>(at - 1)])) {
    while (at < end && !IsSpace(text[static_cast<size_t>(at)])) ++at;  // another chunk's word
  }
  const int64_t size = static_cast<int64_t>(text.size());
  while (at < end) {
    const char c = text[static_cast<size_t>(at)];
    if (IsSpace(c)) {
      if (c == '\n') on_line_end();
      ++at;
      continue;
    }
    const int64_t start = at;
    while (at < size && !IsSpace(text[static_cast<size_t>(at)])) ++at;
    on_word(text.substr(static_cast<size_t>(start), static_cast<size_t>(at - start)));
  }
}

int64_t NumChunks(absl::string_view text) {
  return (static_cast<int64_t>(text.size()) + kTextChunkBytes - 1) / kTextChunkBytes;
}

std::pair<int64_t, int64_t> ChunkRange(absl::string_view text, int64_t chunk) {
  const int64_t begin = chunk * kTextChunkBytes;
  return {begin, std::min(begin + kTextChunkBytes, static_cast<int64_t>(text.size()))};
}

absl::Status CheckTextOptions(const TextDatasetOptions& options) {
  const auto check = [](absl::string_view name, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " ", value, " is outside [", low, ", ", high, "]"));
  };
  RETURN_IF_ERROR(check("window", options.window, 1, 1000));
  if (options.vocabulary != nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(check("min_count", options.min_count, 1, int64_t{1} << 62));
  return check("max_vocabulary", options.max_vocabulary, 1, kMaxTableRows);
}

// A NUL byte never occurs in text; in a binary file it comes soon.
absl::Status CheckIsText(const std::string& path, absl::string_view text) {
  const size_t nul = text.find('\0');
  if (nul == absl::string_view::npos) return absl::OkStatus();
  const absl::string_view before = text.substr(0, nul);
  const int64_t line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_end = before.rfind('\n');
  const size_t line_begin = line_end == absl::string_view::npos ? 0 : line_end + 1;
  return ParseError(path, line,
                    {static_cast<int64_t>(nul - line_begin) + 1, "a NUL byte",
                     "plain text: words separated by white space"});
}

std::shared_ptr<const Vocabulary> CountWords(absl::string_view text,
                                             const TextDatasetOptions& options) {
  using Counts = absl::flat_hash_map<absl::string_view, int64_t>;
  std::vector<Counts> counts(static_cast<size_t>(std::max(1, options.parallelism.threads)));
  ParallelFor(options.parallelism, NumChunks(text), 1, [&](int64_t chunk, int thread) {
    Counts& mine = counts[static_cast<size_t>(thread)];
    const auto [begin, end] = ChunkRange(text, chunk);
    ScanWords(
        text, begin, end, [&](absl::string_view word) { ++mine[word]; }, [] {});
  });
  for (size_t t = 1; t < counts.size(); ++t) {
    for (const auto& [word, count] : counts[t]) counts[0][word] += count;
    Counts().swap(counts[t]);
  }
  std::vector<std::pair<int64_t, absl::string_view>> ranked;
  for (const auto& [word, count] : counts[0]) {
    if (count >= options.min_count) ranked.emplace_back(-count, word);
  }
  std::sort(ranked.begin(), ranked.end());
  if (static_cast<int64_t>(ranked.size()) > options.max_vocabulary) {
    ranked.resize(static_cast<size_t>(options.max_vocabulary));
  }
  std::vector<Vocabulary::Word> words;
  words.reserve(ranked.size());
  for (const auto& [negative_count, word] : ranked) {
    words.push_back({std::string(word), -negative_count});
  }
  return std::make_shared<const Vocabulary>(std::move(words));
}

// The kept words of one chunk.
struct EncodedChunk {
  std::vector<uint32_t> codes;
  int64_t words = 0;              // kept or not
  bool line_ends_at_end = false;  // a line end follows the last kept word (or there is none at all)
};

void EncodeChunk(absl::string_view text, int64_t chunk, const Vocabulary& vocabulary,
                 EncodedChunk* out) {
  out->codes.clear();
  out->words = 0;
  out->line_ends_at_end = false;
  const auto [begin, end] = ChunkRange(text, chunk);
  ScanWords(
      text, begin, end,
      [&](absl::string_view word) {
        ++out->words;
        const int64_t id = vocabulary.Find(word);
        if (id < 0) return;
        out->codes.push_back(static_cast<uint32_t>(id) | (out->line_ends_at_end ? kLineStart : 0));
        out->line_ends_at_end = false;
      },
      [&] { out->line_ends_at_end = true; });
}

struct EncodedText {
  DataFile codes;
  std::vector<int64_t> counts;  // [vocabulary]
  int64_t kept_words = 0;
  int64_t total_words = 0;
};

absl::StatusOr<EncodedText> EncodeText(const std::string& path, absl::string_view text,
                                       const Vocabulary& vocabulary,
                                       const TextDatasetOptions& options) {
  ASSIGN_OR_RETURN(TemporaryFile file, TemporaryFile::Create(options.file.temp_dir));
  EncodedText encoded;
  encoded.counts.assign(static_cast<size_t>(vocabulary.size()), 0);
  const int64_t num_chunks = NumChunks(text);
  const int64_t wave = std::max(1, options.parallelism.threads) * kChunksPerThread;
  std::vector<EncodedChunk> chunks(static_cast<size_t>(wave));
  bool at_line_start = true;
  for (int64_t first = 0; first < num_chunks; first += wave) {
    const int64_t count = std::min(wave, num_chunks - first);
    ParallelFor(options.parallelism, count, 1, [&](int64_t i, int) {
      EncodeChunk(text, first + i, vocabulary, &chunks[static_cast<size_t>(i)]);
    });
    for (int64_t i = 0; i < count; ++i) {
      EncodedChunk& chunk = chunks[static_cast<size_t>(i)];
      encoded.total_words += chunk.words;
      if (!chunk.codes.empty()) {
        if (at_line_start) chunk.codes[0] |= kLineStart;
        at_line_start = false;
      }
      at_line_start = at_line_start || chunk.line_ends_at_end;
      encoded.kept_words += static_cast<int64_t>(chunk.codes.size());
      for (const uint32_t code : chunk.codes) ++encoded.counts[code & kIdMask];
      RETURN_IF_ERROR(
          file.Append(absl::string_view(reinterpret_cast<const char*>(chunk.codes.data()),
                                        chunk.codes.size() * sizeof(uint32_t))));
    }
  }
  ASSIGN_OR_RETURN(encoded.codes, file.Map(path));
  return encoded;
}

uint64_t HashVocabulary(const Vocabulary& vocabulary) {
  uint64_t hash = static_cast<uint64_t>(vocabulary.size());
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    hash = HashContent(hash, vocabulary.word(id).text);
  }
  return hash;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextDataset>> TextDataset::Open(const std::string& path,
                                                               const TextDatasetOptions& options) {
  RETURN_IF_ERROR(CheckTextOptions(options));
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path, options.file));
  const absl::string_view text = file.bytes();
  RETURN_IF_ERROR(CheckIsText(path, text));

  std::unique_ptr<TextDataset> dataset(new TextDataset());
  dataset->path_ = path;
  dataset->window_ = options.window;
  dataset->vocabulary_ =
      options.vocabulary != nullptr ? options.vocabulary : CountWords(text, options);
  ASSIGN_OR_RETURN(EncodedText encoded, EncodeText(path, text, *dataset->vocabulary_, options));
  if (encoded.kept_words == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " has ", encoded.total_words, " words, none of them ",
        options.vocabulary != nullptr
            ? absl::StrCat("among the ", options.vocabulary->size(), " of the vocabulary")
            : absl::StrCat("at least ", options.min_count, " times (lower min_count)")));
  }
  dataset->encoded_ = std::move(encoded.codes);
  dataset->codes_ = reinterpret_cast<const uint32_t*>(dataset->encoded_.bytes().data());
  dataset->counts_ = std::move(encoded.counts);
  dataset->num_points_ = encoded.kept_words;
  dataset->total_words_ = encoded.total_words;
  dataset->fingerprint_ = HashContentSample(
      DeriveKey(HashVocabulary(*dataset->vocabulary_), static_cast<uint64_t>(options.window)),
      text);
  return dataset;
}

absl::Status TextDataset::ReadSamples(absl::Span<const int64_t> points, SparseBatch* batch) const {
  batch->Clear();
  for (const int64_t point : points) {
    if (point < 0 || point >= num_points_) {
      batch->Clear();
      return absl::OutOfRangeError(
          absl::StrCat("point ", point, " outside ", path_, " [0, ", num_points_, ")"));
    }
    batch->features.push_back(RowId(codes_[point] & kIdMask));
    batch->values.push_back(1.0f);
    const auto first_label = static_cast<std::ptrdiff_t>(batch->labels.size());
    const int64_t first = std::max<int64_t>(0, point - window_);
    for (int64_t p = point; p > first && (codes_[p] & kLineStart) == 0; --p) {
      batch->labels.push_back(RowId(codes_[p - 1] & kIdMask));
    }
    const int64_t last = std::min(num_points_ - 1, point + window_);
    for (int64_t p = point + 1; p <= last && (codes_[p] & kLineStart) == 0; ++p) {
      batch->labels.push_back(RowId(codes_[p]));
    }
    std::sort(batch->labels.begin() + first_label, batch->labels.end());
    batch->labels.erase(std::unique(batch->labels.begin() + first_label, batch->labels.end()),
                        batch->labels.end());
    batch->FinishSample();
  }
  return absl::OkStatus();
}

absl::string_view TextDataset::FeatureName(int64_t feature) const {
  if (feature < 0 || feature >= vocabulary_->size()) return "";
  return vocabulary_->word(feature).text;
}

absl::string_view TextDataset::LabelName(int64_t label) const { return FeatureName(label); }

}  // namespace dslide

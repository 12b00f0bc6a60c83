// Plain text as a task: from a word to the words around it, as the SLIDE papers use text8.
//
// Words are separated by white space (ASCII). A line is a document: windows never cross it.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/dataset.h"

namespace dslide {

// Words with ids 0 .. size() - 1 by falling count, then alphabetically by bytes.
// Thread safety: immutable after construction.
class Vocabulary {
 public:
  struct Word {
    std::string text;
    int64_t count = 0;
  };

  // `words` in id order, all different.
  explicit Vocabulary(std::vector<Word> words);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  int64_t size() const { return static_cast<int64_t>(words_.size()); }
  const Word& word(int64_t id) const { return words_[static_cast<size_t>(id)]; }
  // -1 when the word is not in the vocabulary.
  int64_t Find(absl::string_view word) const;

  // Text, one word a line in id order: `count<TAB>word`. Errors: system errors, naming the path.
  absl::Status Save(const std::string& path) const;
  // Errors: NotFound; InvalidArgument naming file, line and column.
  static absl::StatusOr<std::shared_ptr<const Vocabulary>> Load(const std::string& path);
  // The same for a text in memory; `origin` names it in errors.
  std::string ToText() const;
  static absl::StatusOr<std::shared_ptr<const Vocabulary>> FromText(absl::string_view content,
                                                                    const std::string& origin);

 private:
  std::vector<Word> words_;
  absl::flat_hash_map<absl::string_view, uint32_t> ids_;  // keys point into words_
};

struct TextDatasetOptions {
  Parallelism parallelism;
  // Words taken as labels on each side of the input word. Range [1, 1000].
  int64_t window = 2;
  // Rarer words are dropped before windows are formed. At least 1.
  int64_t min_count = 5;
  // At most this many words, the most frequent. Range [1, kMaxTableRows].
  int64_t max_vocabulary = 1000000;
  // When set, its words are used and the two cut-offs above are ignored: how a test text is read.
  // Shared: the datasets of training and evaluation and the model's directory hold one vocabulary.
  std::shared_ptr<const Vocabulary> vocabulary;
  DataFileOptions file;
};

// One point per word of the text that is in the vocabulary, in text order: its input is the word
// (value 1), its labels are the distinct words within `window` kept words on either side in the
// same line (none when the line has no other kept word). Features and labels share the vocabulary.
//
// The text is encoded once as 4 bytes per word in an unlinked temporary file that is mapped, so
// larger than memory works; nothing else grows with the number of words.
class TextDataset final : public Dataset {
 public:
  // Errors: those of DataFile::Open(); InvalidArgument for options out of range, a NUL byte (with
  // file, line and column: not a text), or a text without any word of the vocabulary;
  // ResourceExhausted when the temporary directory is full.
  static absl::StatusOr<std::unique_ptr<TextDataset>> Open(const std::string& path,
                                                           const TextDatasetOptions& options);

  const std::shared_ptr<const Vocabulary>& vocabulary() const { return vocabulary_; }
  int64_t total_words() const { return total_words_; }  // before the cut-off

  const std::string& path() const override { return path_; }
  int64_t num_points() const override { return num_points_; }
  int64_t num_features() const override { return vocabulary_->size(); }
  int64_t num_labels() const override { return vocabulary_->size(); }
  absl::Status ReadSamples(absl::Span<const int64_t> points, SparseBatch* batch) const override;
  absl::string_view FeatureName(int64_t feature) const override;
  absl::string_view LabelName(int64_t label) const override;
  // The words' counts in this text.
  absl::Span<const int64_t> DocumentFrequency() const override { return counts_; }
  uint64_t Fingerprint() const override { return fingerprint_; }

 private:
  TextDataset() = default;

  std::string path_;
  int64_t window_ = 0;
  std::shared_ptr<const Vocabulary> vocabulary_;
  DataFile encoded_;  // uint32 per point; the top bit marks the first word of a line
  const uint32_t* codes_ = nullptr;
  int64_t num_points_ = 0;
  int64_t total_words_ = 0;
  std::vector<int64_t> counts_;
  uint64_t fingerprint_ = 0;
};

}  // namespace dslide

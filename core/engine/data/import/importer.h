// From files of other programs to the files that a model learns from.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/data/import/import_source.h"
#include "core/engine/data/text/tokenizer.h"

namespace dslide {

// The names of a model, in id order; "" for rows without one.
struct KnownNames {
  std::vector<std::string> features = {};
  std::vector<std::string> labels = {};
};

struct ImportOptions {
  ImportSource source;
  std::vector<std::string> files;       // one at least; plain or compressed
  std::vector<std::string> test_files;  // their rows are all for testing
  // Of the rows of `files`, by a hash of what they say: equal rows stay on one side, whatever the
  // order. [0, 1)
  double test_fraction = 0;
  TokenizerOptions tokenizer;
  // They keep their ids, and stay where no point has them; other names get the next ids.
  KnownNames known = {};
  // Other names on fewer training points are left out. At least 1.
  int64_t min_count = 1;
  int64_t min_label_count = 1;
  // Features at most: the known ones, and those on most training points. [1, kMaxTableRows]
  int64_t max_features = 1000000;
  // Receives train.txt, test.txt, features.txt, labels.txt and, where texts were cut,
  // tokenizer.json; made when absent. A set that is there is replaced only where that is asked for.
  std::string output_dir;
  bool overwrite = false;
  Parallelism parallelism;
  // Called now and then with the bytes read of one file and its size unpacked. May be empty.
  std::function<void(const std::string& path, int64_t done_bytes, int64_t total_bytes)> progress;
  // Asked as often; true ends the import with Cancelled. May be empty.
  std::function<bool()> stop_requested;

  // Errors: InvalidArgument naming the field, the value and the range.
  absl::Status Validate() const;
};

struct ImportPart {
  int64_t points = 0;
  int64_t without_labels = 0;    // rows left out: they have no label, or none that is kept
  int64_t without_features = 0;  // rows left out of training: no word of theirs is kept
  int64_t features = 0;          // of all points together
  int64_t labels = 0;
};

struct ImportReport {
  int64_t rows = 0;
  ImportPart train;
  ImportPart test;
  int64_t features = 0;
  int64_t labels = 0;
  int64_t new_features = 0;  // of these: names that were not known
  int64_t new_labels = 0;
  int64_t features_left_out = 0;  // too rare or too many
  int64_t labels_left_out = 0;
  // What seems to separate labels although it was not named; "": nothing.
  std::string suspected_separator;
};

// Reads the rows once, in order, and keeps them in a temporary file of `output_dir` while it counts
// names; these are all that memory must hold. Ids of names that are not known go by falling number
// of training points, then alphabetically. The same files give the same bytes for any number of
// threads.
//
// A row without a label that is kept is no point, nor is a training row without a word that is
// kept. A test row without one stays: the model will meet such texts.
//
// Errors: those of Validate() and of the readers (record_reader.h); InvalidArgument when no
// training point is left, saying why, when a test part was asked for and is empty, or when
// `output_dir` holds a set already; system errors naming the path.
absl::StatusOr<ImportReport> ImportData(const ImportOptions& options);

// Writes every row of `options.files` as a point, in order, to a file in the sparse text format;
// names that are not known are dropped. Of the options, source, files, tokenizer, known names,
// parallelism and progress count; output_dir holds temporary files. Errors: those of
// ImportOptions::Validate() and of the readers; InvalidArgument when there is no row; system
// errors.
absl::Status ImportForModel(const ImportOptions& options, const std::string& path);

}  // namespace dslide

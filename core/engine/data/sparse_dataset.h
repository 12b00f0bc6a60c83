// The sparse text format of the Extreme Classification Repository.
//
//   points features labels
//   label,label,... feature:value feature:value ...
//
// Ids count from 0. A line may begin with a blank: the point has no label. A line may hold labels
// and no features. Blanks are spaces or tabs; lines end in LF or CRLF; blank lines may follow the
// last point. Ids may come in any order within a line but not twice.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/dataset.h"

namespace dslide {

struct SparseDatasetOptions {
  Parallelism parallelism;
  // Count the points of each feature while the file is checked; costs 8 bytes per feature and
  // thread. Needed by a quick ComputeIdf().
  bool count_document_frequency = false;
  // Files with one name a line, in id order. "": `features.txt` and `labels.txt` (or .xz, .gz,
  // .zst, .lz4 of them) beside the data file, when they exist and have as many lines as there are
  // ids; Notes() says when they have not.
  std::string feature_names;
  std::string label_names;
  // What path() and errors say instead of the path; "": the path.
  std::string shown_path;
  DataFileOptions file;
};

// The first line.
struct SparseHeader {
  int64_t points = 0;    // >= 1
  int64_t features = 0;  // [1, kMaxTableRows]
  int64_t labels = 0;    // [1, kMaxTableRows]
};

// Points are parsed when they are read, so data larger than memory works; resident are 8 bytes per
// point, the names, and whatever pages the system keeps.
class SparseDataset final : public Dataset {
 public:
  // Maps the file and checks every byte of it, in parallel.
  //
  // Errors: those of DataFile::Open(); InvalidArgument "file:line:column: found ..., expected ..."
  // for the first malformed place in file order, whatever the number of threads. Columns count
  // bytes from 1. InvalidArgument, too, when counting needs more memory than is good for the
  // process, naming the sizes.
  static absl::StatusOr<std::unique_ptr<SparseDataset>> Open(const std::string& path,
                                                             const SparseDatasetOptions& options);
  // The same on bytes in memory, without name files. `name` stands for the path.
  static absl::StatusOr<std::unique_ptr<SparseDataset>> FromText(
      const std::string& name, std::string text, const SparseDatasetOptions& options);

  const SparseHeader& header() const { return header_; }

  const std::string& path() const override { return path_; }
  int64_t num_points() const override { return header_.points; }
  int64_t num_features() const override { return header_.features; }
  int64_t num_labels() const override { return header_.labels; }
  absl::Status ReadSamples(absl::Span<const int64_t> points, SparseBatch* batch) const override;
  absl::string_view FeatureName(int64_t feature) const override;
  absl::string_view LabelName(int64_t label) const override;
  absl::Span<const int64_t> DocumentFrequency() const override { return document_frequency_; }
  uint64_t Fingerprint() const override { return fingerprint_; }
  const std::vector<std::string>& Notes() const override { return notes_; }

 private:
  SparseDataset() = default;

  absl::Status Index(const SparseDatasetOptions& options);

  std::string path_;
  DataFile file_;      // holds the bytes, or
  std::string owned_;  // these do
  absl::string_view text_;
  SparseHeader header_;
  std::vector<uint64_t> line_starts_;  // [points]: byte offset of each point's line
  std::vector<int64_t> document_frequency_;
  std::vector<std::string> feature_names_;
  std::vector<std::string> label_names_;
  std::vector<std::string> notes_;
  uint64_t fingerprint_ = 0;
};

// Errors: InvalidArgument naming both files and the number that differs, when data for evaluation
// does not fit data for training (features and labels must be equal; points may differ).
absl::Status CheckSameShape(const Dataset& train, const Dataset& eval);

}  // namespace dslide

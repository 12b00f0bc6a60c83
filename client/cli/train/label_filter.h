// Labels that must not be predicted for a point: what a user has already, or what a set forbids.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/model/model_dir.h"
#include "client/components/ranking.h"
#include "core/engine/data/sparse_batch.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

struct FilterOptions {
  bool exclude_inputs = false;
  std::string filter = {};  // a file with lines "point label", ids from 0; "": none
  bool any() const { return exclude_inputs || !filter.empty(); }
};

void AddFilterOptions(CliCommand app, FilterOptions& options);

// What was left out of rankings so far.
struct FilterCounts {
  int64_t predictions = 0;  // that would have been among the first k
  int64_t true_labels = 0;  // labels of points that cannot be predicted for them
};

// Not thread-safe.
class LabelFilter {
 public:
  // points: those of the data that is ranked. With exclude_inputs a feature stands for the label of
  // its name; where neither features nor labels have names, for that of its id.
  // Errors: those of reading the file, with the place; InvalidArgument for ids out of range, when
  // only features or only labels have names, or when no feature is a label.
  static absl::StatusOr<LabelFilter> Create(const FilterOptions& options, const StoredModel& model,
                                            int64_t points);

  // Ranks by `rank`, asking for as many more labels as may be left out, and leaves them out. At
  // most kMostRanked are asked for: a point may get fewer than k when nearly all of them are left
  // out.
  absl::StatusOr<std::vector<Prediction>> Rank(SparseBatch samples,
                                               absl::Span<const int64_t> points, int64_t k,
                                               const RankLabels& rank);
  const FilterCounts& counts() const { return counts_; }

  static constexpr int64_t kMostRanked = 1024;  // what a shard ranks at once

 private:
  explicit LabelFilter(int64_t labels) : labels_(labels) {}
  absl::Status ReadPairs(const std::string& path, int64_t points);
  absl::Status MatchInputs(const StoredModel& model);
  // Ascending, distinct.
  std::vector<RowId> LeftOut(absl::Span<const RowId> features, int64_t point) const;

  int64_t labels_;
  std::vector<std::pair<int64_t, RowId>> pairs_;  // point and label, ascending
  std::vector<RowId> label_of_feature_;           // [features], kNoRow for none; or empty
  bool by_id_ = false;                            // a feature is the label of its id
  FilterCounts counts_;
};

}  // namespace dslide::cli

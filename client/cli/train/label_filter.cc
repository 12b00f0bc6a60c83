#include "client/cli/train/label_filter.h"

#include <algorithm>
#include <iterator>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/console/global_options.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/name_list.h"
#include "core/engine/data/parse_error.h"

namespace dslide::cli {
namespace {

bool HasNames(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return !name.empty(); });
}

// Whether `label`, ascending, has it.
bool HasLabel(absl::Span<const RowId> labels, RowId label) {
  return std::binary_search(labels.begin(), labels.end(), label);
}

}  // namespace

void AddFilterOptions(CliCommand app, FilterOptions& options) {
  app.AddSwitch(
      "--exclude-inputs", options.exclude_inputs,
      "Leave out labels that are features of the point, by name: what a user has already");
  AddOption(app, "--filter", options.filter,
            "File with lines \"point label\", ids from 0: labels left out for a point");
}

absl::StatusOr<LabelFilter> LabelFilter::Create(const FilterOptions& options,
                                                const StoredModel& model, int64_t points) {
  LabelFilter filter(model.spec.num_labels());
  if (!options.filter.empty()) RETURN_IF_ERROR(filter.ReadPairs(options.filter, points));
  if (options.exclude_inputs) RETURN_IF_ERROR(filter.MatchInputs(model));
  return filter;
}

absl::Status LabelFilter::ReadPairs(const std::string& path, int64_t points) {
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  LineReader reader(file.bytes());
  absl::string_view line;
  while (reader.Next(&line)) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (parts.empty()) continue;
    int64_t point = -1;
    int64_t label = -1;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &point) ||
        !absl::SimpleAtoi(parts[1], &label) || point < 0 || point >= points || label < 0 ||
        label >= labels_) {
      return ParseError(path, reader.line_number(),
                        {1, QuoteFound(line),
                         absl::StrCat("\"point label\" with a point in [0, ", points,
                                      ") and a label in [0, ", labels_, ")")});
    }
    pairs_.emplace_back(point, RowId(static_cast<uint32_t>(label)));
  }
  std::sort(pairs_.begin(), pairs_.end());
  return absl::OkStatus();
}

absl::Status LabelFilter::MatchInputs(const StoredModel& model) {
  const std::vector<std::string>& names = model.features.names;
  const bool features_named = HasNames(names);
  if (features_named != HasNames(model.labels)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--exclude-inputs: the model knows names of ", features_named ? "features" : "labels",
        " only, so which feature is which label cannot be told; train with features.txt and "
        "labels.txt beside the data, or name pairs with --filter"));
  }
  by_id_ = !features_named;
  if (by_id_) return absl::OkStatus();
  absl::flat_hash_map<absl::string_view, uint32_t> ids;
  for (size_t l = 0; l < model.labels.size(); ++l) {
    if (!model.labels[l].empty()) ids.emplace(model.labels[l], static_cast<uint32_t>(l));
  }
  bool has_any = false;
  for (const std::string& name : names) {
    const auto found = ids.find(name);
    label_of_feature_.push_back(found == ids.end() ? kNoRow : RowId(found->second));
    has_any = has_any || found != ids.end();
  }
  if (has_any) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--exclude-inputs: no feature of the model has the name of a label, so nothing would be left "
      "out; leave the flag out, or name pairs with --filter");
}

std::vector<RowId> LabelFilter::LeftOut(absl::Span<const RowId> features, int64_t point) const {
  std::vector<RowId> labels;
  for (auto pair = std::lower_bound(pairs_.begin(), pairs_.end(), std::pair(point, RowId(0)));
       pair != pairs_.end() && pair->first == point; ++pair) {
    labels.push_back(pair->second);
  }
  for (const RowId feature : features) {
    if (by_id_ && feature.value() < labels_) labels.push_back(feature);
    if (feature.value() >= label_of_feature_.size()) continue;
    const RowId label = label_of_feature_[feature.value()];
    if (label != kNoRow) labels.push_back(label);
  }
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

absl::StatusOr<std::vector<Prediction>> LabelFilter::Rank(SparseBatch samples,
                                                          absl::Span<const int64_t> points,
                                                          int64_t k, const RankLabels& rank) {
  std::vector<std::vector<RowId>> left_out;
  size_t most = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    left_out.push_back(LeftOut(samples.FeaturesOf(at), points[i]));
    most = std::max(most, left_out.back().size());
    for (const RowId label : samples.LabelsOf(at)) {
      counts_.true_labels += HasLabel(left_out.back(), label) ? 1 : 0;
    }
  }
  const int64_t enough = std::min({k + static_cast<int64_t>(most), labels_, kMostRanked});
  ASSIGN_OR_RETURN(std::vector<Prediction> predictions,
                   rank(std::move(samples), points, std::max(k, enough)));
  for (size_t i = 0; i < predictions.size(); ++i) {
    Prediction kept;
    const Prediction& all = predictions[i];
    for (size_t r = 0; r < all.labels.size(); ++r) {
      if (static_cast<int64_t>(kept.labels.size()) == k) break;
      if (HasLabel(left_out[i], all.labels[r])) {
        counts_.predictions += static_cast<int64_t>(r) < k ? 1 : 0;
        continue;
      }
      kept.labels.push_back(all.labels[r]);
      kept.logits.push_back(all.logits[r]);
    }
    predictions[i] = std::move(kept);
  }
  return predictions;
}

}  // namespace dslide::cli

#include "client/cli/train/prediction_text.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/engine/data/epoch_order.h"

namespace dslide::cli {

std::string NameOf(const StoredModel& model, RowId label) {
  const absl::string_view name = model.LabelName(label);
  return name.empty() ? absl::StrCat("label ", label.value()) : std::string(name);
}

nlohmann::ordered_json PredictionToJson(const StoredModel& model, const Prediction& prediction) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (size_t i = 0; i < prediction.labels.size(); ++i) {
    nlohmann::ordered_json entry;
    entry["label"] = prediction.labels[i].value();
    const absl::string_view name = model.LabelName(prediction.labels[i]);
    if (!name.empty()) entry["name"] = std::string(name);
    entry["logit"] = prediction.logits[i];
    list.push_back(entry);
  }
  return list;
}

std::string PredictionToText(const StoredModel& model, const Prediction& prediction) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < prediction.labels.size(); ++i) {
    lines.push_back(absl::StrFormat("%3d. %s (%.2f)", i + 1, NameOf(model, prediction.labels[i]),
                                    prediction.logits[i]));
  }
  return lines.empty() ? "  nothing" : absl::StrJoin(lines, "\n");
}

absl::StatusOr<TextEncoder> EncoderOf(const StoredModel& model) {
  std::optional<TokenizerOptions> tokenizer = model.tokenizer;
  if (model.vocabulary != nullptr) {
    tokenizer = {.kind = TokenizerKind::kWhitespace, .lower_case = false};
  }
  return TextEncoder::Create(model.features.names, tokenizer);
}

std::string DescribeInput(const StoredModel& model, absl::Span<const RowId> features,
                          absl::Span<const float> values, size_t count) {
  // tf-idf orders the words as a person would: by what is special about the point.
  std::vector<size_t> order(features.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto weight = [&](size_t i) { return values[i] * model.features.idf[features[i].value()]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return weight(a) > weight(b); });
  std::vector<std::string> words;
  for (size_t i = 0; i < order.size() && i < count; ++i) {
    const uint32_t feature = features[order[i]].value();
    const std::string& name = model.features.names[feature];
    words.push_back(name.empty() ? absl::StrCat("feature ", feature) : name);
  }
  return absl::StrJoin(words, " ");
}

std::string ExamplesToText(const StoredModel& model, const SparseBatch& samples,
                           absl::Span<const Prediction> predictions) {
  std::string text;
  for (size_t i = 0; i < predictions.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    std::string predicted;
    for (const RowId label : predictions[i].labels) {
      const absl::Span<const RowId> truth = samples.LabelsOf(at);
      const bool hit = std::binary_search(truth.begin(), truth.end(), label);
      absl::StrAppend(&predicted, predicted.empty() ? "" : ", ", NameOf(model, label),
                      hit ? " (right)" : "");
    }
    absl::StrAppend(&text, "\n  ",
                    DescribeInput(model, samples.FeaturesOf(at), samples.ValuesOf(at), 8), "\n",
                    "    -> ", predicted);
  }
  return text;
}

std::vector<int64_t> ExamplePoints(int64_t num_points, uint64_t seed) {
  constexpr int64_t kExamples = 5;
  std::vector<int64_t> points;
  const EpochOrder order(num_points, seed, 0);
  for (int64_t i = 0; i < std::min(kExamples, num_points); ++i) points.push_back(order.PointAt(i));
  return points;
}

}  // namespace dslide::cli

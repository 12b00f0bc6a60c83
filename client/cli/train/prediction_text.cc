#include "client/cli/train/prediction_text.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/engine/data/sources/debian_set.h"

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

absl::StatusOr<TextQuery> QueryFromText(const StoredModel& model, const std::string& text) {
  absl::flat_hash_map<absl::string_view, uint32_t> ids;
  for (size_t i = 0; i < model.features.names.size(); ++i) {
    const std::string& name = model.features.names[i];
    if (!name.empty()) ids.emplace(name, static_cast<uint32_t>(i));
  }
  if (ids.empty()) {
    return absl::FailedPreconditionError(
        "the model's features have no names (there was no features.txt beside the training data), "
        "so a text says nothing to it; pass --data FILE instead of --text");
  }
  const std::vector<std::string> words =
      model.vocabulary != nullptr ? std::vector<std::string>(absl::StrSplit(
                                        text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty()))
                                  : DescriptionWords(text);
  TextQuery query;
  std::map<uint32_t, float> counts;
  for (const std::string& word : words) {
    const auto it = ids.find(word);
    if (it != ids.end()) {
      counts[it->second] += 1;
    } else if (std::find(query.unknown.begin(), query.unknown.end(), word) == query.unknown.end()) {
      query.unknown.push_back(word);
    }
  }
  if (counts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model knows none of the words of \"", text, "\""));
  }
  for (const auto& [feature, count] : counts) {
    query.batch.features.emplace_back(feature);
    query.batch.values.push_back(count);
  }
  query.batch.FinishSample();
  return query;
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

}  // namespace dslide::cli

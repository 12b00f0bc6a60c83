#include "core/spec/spec_difference.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/spec/json_archive.h"
#include "core/spec/model_growth.h"
#include "core/spec/model_spec_visitor.h"

namespace dslide {
namespace {

std::string Text(const Json* value) { return value == nullptr ? "absent" : value->dump(); }

std::optional<SpecDifference> Compare(const std::string& path, const Json* known,
                                      const Json* other) {
  if (known != nullptr && other != nullptr && *known == *other) return std::nullopt;
  const bool both = known != nullptr && other != nullptr;
  if (both && known->is_object() && other->is_object()) {
    const auto member = [](const Json& object, const std::string& key) {
      const auto found = object.find(key);
      return found == object.end() ? nullptr : &*found;
    };
    for (const Json* object : {known, other}) {
      for (const auto& [key, unused] : object->items()) {
        auto difference = Compare(path.empty() ? key : absl::StrCat(path, ".", key),
                                  member(*known, key), member(*other, key));
        if (difference.has_value()) return difference;
      }
    }
  }
  if (both && known->is_array() && other->is_array()) {
    for (size_t i = 0; i < std::max(known->size(), other->size()); ++i) {
      auto difference =
          Compare(absl::StrCat(path, "[", i, "]"), i < known->size() ? &(*known)[i] : nullptr,
                  i < other->size() ? &(*other)[i] : nullptr);
      if (difference.has_value()) return difference;
    }
  }
  return SpecDifference{path, Text(known), Text(other)};
}

// With the settings of a job, and what is only left out of predictions, set to their defaults.
ModelSpec WithoutJob(ModelSpec spec) {
  spec.retired_labels.clear();
  spec.training = TrainingSpec{.transform = spec.training.transform};
  for (TableSpec& table : spec.tables) {
    table.optimizer.learning_rate = OptimizerSpec().learning_rate;
    table.optimizer.schedule = ScheduleSpec();
  }
  return spec;
}

TrainingSpec WithoutPipeline(TrainingSpec training) {
  training.in_flight_steps = TrainingSpec().in_flight_steps;
  return training;
}

}  // namespace

std::optional<SpecDifference> FirstDifference(const ModelSpec& known, const ModelSpec& other) {
  const Json a = FieldsToJson(WithoutJob(known));
  const Json b = FieldsToJson(WithoutJob(AsGrown(known, other)));
  return Compare("", &a, &b);
}

std::optional<SpecDifference> FirstDifference(const TrainingSpec& known,
                                              const TrainingSpec& other) {
  const Json a = FieldsToJson(WithoutPipeline(known));
  const Json b = FieldsToJson(WithoutPipeline(other));
  return Compare("training", &a, &b);
}

std::optional<SpecDifference> FirstDifference(const TableRate& known, const TableRate& other) {
  const Json a = FieldsToJson(known);
  const Json b = FieldsToJson(other);
  return Compare("", &a, &b);
}

std::string Describe(const SpecDifference& difference) {
  // A whole table is no help.
  constexpr size_t kShown = 60;
  const auto shown = [](const std::string& text) {
    return text.size() <= kShown ? text : absl::StrCat(text.substr(0, kShown), "...");
  };
  return absl::StrCat(difference.field, " is ", shown(difference.known), ", not ",
                      shown(difference.other));
}

std::vector<TableRate> RatesOf(const ModelSpec& spec) {
  std::vector<TableRate> rates;
  for (const TableSpec& table : spec.tables) {
    if (IsRecordRole(table.role)) continue;
    rates.push_back({.table = table.name,
                     .learning_rate = table.optimizer.learning_rate,
                     .schedule = table.optimizer.schedule});
  }
  return rates;
}

}  // namespace dslide

// Predictions by name.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/model/model_dir.h"
#include "client/trainer/evaluator.h"
#include "core/engine/data/text/text_encoder.h"

namespace dslide::cli {

// "nginx" or, without names, "label 17".
std::string NameOf(const StoredModel& model, RowId label);

// {"label": 17, "name": "nginx", "logit": 3.25}, best first; without "name" when it is unknown.
nlohmann::ordered_json PredictionToJson(const StoredModel& model, const Prediction& prediction);

// "  1. nginx (3.25)", a line each.
std::string PredictionToText(const StoredModel& model, const Prediction& prediction);

// What reads texts as the features of the model: cut as those that it learnt from. Lives as long as
// the model. Errors: those of TextEncoder::Create().
absl::StatusOr<TextEncoder> EncoderOf(const StoredModel& model);

// Words that a person would know a point by: the names of its features of largest value, at most
// `count`.
std::string DescribeInput(const StoredModel& model, absl::Span<const RowId> features,
                          absl::Span<const float> values, size_t count);

// Two lines for each sample: its words, and its predictions with "(right)" behind its own labels.
std::string ExamplesToText(const StoredModel& model, const SparseBatch& samples,
                           absl::Span<const Prediction> predictions);

// A few points of a data set, which people are shown.
std::vector<int64_t> ExamplePoints(int64_t num_points, uint64_t seed);

}  // namespace dslide::cli

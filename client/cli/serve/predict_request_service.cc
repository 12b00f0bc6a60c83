#include "client/cli/serve/predict_request_service.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/status_details.h"

namespace dslide::cli {
namespace {

absl::Status WrongRequest(absl::string_view reason, absl::string_view field,
                          absl::string_view problem) {
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason,
                          absl::StrCat(field, " ", problem));
}

absl::Status CheckFiniteValues(absl::string_view field,
                               const google::protobuf::RepeatedField<float>& values) {
  for (int i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return WrongRequest(reason::kNotFinite, absl::StrCat(field, "[", i, "]"),
                        "is no finite number");
  }
  return absl::OkStatus();
}

// Ids that a request gave, in its order, with the places of their values.
struct GivenFeatures {
  std::vector<RowId> ids;
  std::vector<int> places;
};

absl::StatusOr<GivenFeatures> FindFeatures(const std::string& field,
                                           const v1::SparseFeatures& features,
                                           const OpenModel& model,
                                           std::vector<std::string>& unknown) {
  GivenFeatures given;
  const int64_t known = model.num_features();
  for (int i = 0; i < features.ids_size(); ++i) {
    if (features.ids(i) >= known) {
      return WrongRequest(
          reason::kOutOfRange, absl::StrCat(field, ".ids[", i, "]"),
          absl::StrCat("is ", features.ids(i), ", the model has features [0, ", known, ")"));
    }
    given.ids.emplace_back(features.ids(i));
    given.places.push_back(i);
  }
  if (features.names_size() > 0 && !model.texts.ok()) {
    return WrongRequest(reason::kWrongInput, absl::StrCat(field, ".names"),
                        "say nothing to this model: its features have no names; give ids");
  }
  for (int i = 0; i < features.names_size(); ++i) {
    const std::optional<RowId> id = model.texts->Find(features.names(i));
    if (!id.has_value()) {
      unknown.push_back(features.names(i));
      continue;
    }
    given.ids.push_back(*id);
    given.places.push_back(i);
  }
  return given;
}

absl::StatusOr<RankQuery> QueryOfFeatures(const std::string& field,
                                          const v1::SparseFeatures& features,
                                          const OpenModel& model,
                                          std::vector<std::string>& unknown) {
  if ((features.ids_size() > 0) == (features.names_size() > 0)) {
    return WrongRequest(reason::kMissingField, field,
                        "must have either ids or names, at least one");
  }
  const int count = std::max(features.ids_size(), features.names_size());
  if (features.values_size() != 0 && features.values_size() != count) {
    return WrongRequest(reason::kBadSize, absl::StrCat(field, ".values"),
                        absl::StrCat("has ", features.values_size(), " numbers for ", count,
                                     " features: give one for each, or none"));
  }
  RETURN_IF_ERROR(CheckFiniteValues(absl::StrCat(field, ".values"), features.values()));
  ASSIGN_OR_RETURN(const GivenFeatures given, FindFeatures(field, features, model, unknown));
  std::vector<size_t> order(given.ids.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return given.ids[a] < given.ids[b]; });
  RankQuery query;
  for (const size_t i : order) {
    if (!query.features.empty() && query.features.back() == given.ids[i]) {
      return WrongRequest(
          reason::kNotAscending, field,
          absl::StrCat("has feature ", given.ids[i].value(), " twice: add its values up"));
    }
    query.features.push_back(given.ids[i]);
    query.values.push_back(features.values().empty() ? 1.0f : features.values(given.places[i]));
  }
  return query;
}

absl::StatusOr<RankQuery> QueryOfHidden(const std::string& field, const v1::HiddenVector& hidden,
                                        const OpenModel& model) {
  const int64_t dim = model.hidden_dim();
  if (dim == 0) {
    return WrongRequest(reason::kWrongInput, field,
                        "is no input of this model: its labels are scored by a memory; send a text "
                        "or features");
  }
  if (hidden.values_size() != dim) {
    return WrongRequest(
        reason::kWrongDim, absl::StrCat(field, ".values"),
        absl::StrCat("has ", hidden.values_size(), " numbers, the head has ", dim, " columns"));
  }
  RETURN_IF_ERROR(CheckFiniteValues(absl::StrCat(field, ".values"), hidden.values()));
  RankQuery query;
  query.hidden.assign(hidden.values().begin(), hidden.values().end());
  return query;
}

absl::StatusOr<RankQuery> QueryOfText(const std::string& field, const std::string& text,
                                      const OpenModel& model, std::vector<std::string>& unknown) {
  if (!model.texts.ok()) {
    return WrongRequest(reason::kWrongInput, field,
                        "says nothing to this model: its features have no names; send features");
  }
  TextQuery read = model.texts->Recognize(text);
  unknown = std::move(read.unknown);
  RankQuery query;
  query.features = std::move(read.batch.features);
  query.values = std::move(read.batch.values);
  return query;
}

absl::StatusOr<RankQuery> ToQuery(const std::string& field, const v1::PredictQuery& query,
                                  const OpenModel& model, std::vector<std::string>& unknown) {
  switch (query.input_case()) {
    case v1::PredictQuery::kText:
      return QueryOfText(absl::StrCat(field, ".text"), query.text(), model, unknown);
    case v1::PredictQuery::kFeatures:
      return QueryOfFeatures(absl::StrCat(field, ".features"), query.features(), model, unknown);
    case v1::PredictQuery::kHidden:
      return QueryOfHidden(absl::StrCat(field, ".hidden"), query.hidden(), model);
    case v1::PredictQuery::INPUT_NOT_SET:
      break;
  }
  return WrongRequest(reason::kMissingField, field, "has none of text, features and hidden");
}

absl::StatusOr<RankOptions> RankOptionsOf(const v1::PredictRequest& request, const OpenModel& model,
                                          bool hashed_by_default) {
  if (request.top_k() > kMaxPredictLabels) {
    return WrongRequest(reason::kOutOfRange, "top_k",
                        absl::StrCat("is ", request.top_k(), ", must be in [1, ", kMaxPredictLabels,
                                     "]; 0: ", kDefaultPredictLabels));
  }
  const std::vector<v1::PredictMode> modes = PredictModes(model, hashed_by_default);
  const v1::PredictMode mode =
      request.mode() == v1::PREDICT_MODE_UNSPECIFIED ? modes.front() : request.mode();
  if (std::find(modes.begin(), modes.end(), mode) == modes.end()) {
    return WrongRequest(
        reason::kBadEnum, "mode",
        absl::StrCat("is ", static_cast<int>(mode), ", this model takes ",
                     model.has_memory() ? "PREDICT_MODE_NEIGHBOURS"
                                        : "PREDICT_MODE_EXACT and PREDICT_MODE_HASHED"));
  }
  return RankOptions{.k = request.top_k() == 0 ? kDefaultPredictLabels : request.top_k(),
                     .hashed = mode == v1::PREDICT_MODE_HASHED};
}

}  // namespace

std::vector<v1::PredictMode> PredictModes(const OpenModel& model, bool hashed_by_default) {
  if (model.has_memory()) return {v1::PREDICT_MODE_NEIGHBOURS};
  if (hashed_by_default) return {v1::PREDICT_MODE_HASHED, v1::PREDICT_MODE_EXACT};
  return {v1::PREDICT_MODE_EXACT, v1::PREDICT_MODE_HASHED};
}

absl::StatusOr<PreparedRequest> PreparePrediction(const v1::PredictRequest& request,
                                                  const OpenModel& model, bool hashed_by_default) {
  if (request.queries_size() < 1 || request.queries_size() > kMaxPredictQueries) {
    return WrongRequest(reason::kOutOfRange, "queries",
                        absl::StrCat("has ", request.queries_size(), " entries, must have 1 to ",
                                     kMaxPredictQueries));
  }
  PreparedRequest prepared;
  ASSIGN_OR_RETURN(prepared.options, RankOptionsOf(request, model, hashed_by_default));
  prepared.unknown.resize(static_cast<size_t>(request.queries_size()));
  for (int i = 0; i < request.queries_size(); ++i) {
    const auto place = static_cast<size_t>(i);
    ASSIGN_OR_RETURN(RankQuery query, ToQuery(absl::StrCat("queries[", i, "]"), request.queries(i),
                                              model, prepared.unknown[place]));
    if (query.features.empty() && query.hidden.empty()) continue;
    prepared.queries.push_back(std::move(query));
    prepared.places.push_back(place);
  }
  return prepared;
}

v1::PredictResponse ToPredictResponse(const PreparedRequest& prepared,
                                      const std::vector<Prediction>& ranked,
                                      const OpenModel& model) {
  v1::PredictResponse response;
  response.set_model(model.model().spec.name);
  const v1::PredictMode asked = model.has_memory()        ? v1::PREDICT_MODE_NEIGHBOURS
                                : prepared.options.hashed ? v1::PREDICT_MODE_HASHED
                                                          : v1::PREDICT_MODE_EXACT;
  for (const std::vector<std::string>& unknown : prepared.unknown) {
    v1::PredictResult* const result = response.add_results();
    result->set_mode(asked);
    result->mutable_unknown()->Assign(unknown.begin(), unknown.end());
  }
  for (size_t q = 0; q < ranked.size(); ++q) {
    const Prediction& prediction = ranked[q];
    v1::PredictResult& result = *response.mutable_results(static_cast<int>(prepared.places[q]));
    if (prediction.exact) result.set_mode(v1::PREDICT_MODE_EXACT);
    result.set_scored_rows(static_cast<uint32_t>(prediction.scored_rows));
    for (size_t i = 0; i < prediction.labels.size(); ++i) {
      v1::PredictedLabel* const label = result.add_labels();
      label->set_id(prediction.labels[i].value());
      // Names are what files had; protobuf's strings are UTF-8.
      label->set_name(wire::ErrorMessageForWire(model.model().LabelName(prediction.labels[i])));
      label->set_score(prediction.logits[i]);
    }
  }
  return response;
}

}  // namespace dslide::cli

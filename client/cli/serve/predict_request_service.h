// PredictRequest -> what is ranked, and back to a PredictResponse. Internal to the service.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/serve/predict_batcher.h"
#include "client/cli/serve/served_model.h"
#include "dslide/v1/predict.pb.h"

namespace dslide::cli {

inline constexpr int kMaxPredictQueries = 256;
inline constexpr int kMaxPredictLabels = 1024;
// What a person looks at.
inline constexpr int kDefaultPredictLabels = 10;

// A request that was checked against the model it is for.
struct PreparedRequest {
  std::vector<RankQuery> queries;                 // those of which the model knows something
  std::vector<size_t> places;                     // [queries] of the request's queries
  std::vector<std::vector<std::string>> unknown;  // [of the request's queries]
  RankOptions options;
};

// Errors: InvalidArgument with a reason word, naming the query ("queries[3].features.ids") and what
// is wrong with it.
absl::StatusOr<PreparedRequest> PreparePrediction(const v1::PredictRequest& request,
                                                  const OpenModel& model, bool hashed_by_default);

// The modes that a model may be asked in, the default first.
std::vector<v1::PredictMode> PredictModes(const OpenModel& model, bool hashed_by_default);

// `ranked`: of prepared.queries.
v1::PredictResponse ToPredictResponse(const PreparedRequest& prepared,
                                      const std::vector<Prediction>& ranked,
                                      const OpenModel& model);

}  // namespace dslide::cli

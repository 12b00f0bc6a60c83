#include "bench/dense/dense_run.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "bench/common/statistics.h"
#include "bench/dense/blas.h"
#include "core/base/status_macros.h"
#include "core/engine/data/epoch_order.h"
#include "core/engine/data/transform.h"

namespace dslide::bench {
namespace {

using Json = nlohmann::ordered_json;

double MedianOf(const std::vector<DenseStep>& steps, double DenseStep::*field) {
  std::vector<double> values;
  for (const DenseStep& step : steps) values.push_back(step.*field);
  return Median(std::move(values));
}

void Summarize(const DenseOptions& shape, DenseRunResult& result) {
  std::vector<double> seconds;
  std::vector<double> touched;
  for (const DenseStep& step : result.steps) {
    seconds.push_back(step.total());
    touched.push_back(static_cast<double>(step.input_rows));
  }
  result.step_seconds = Median(seconds);
  result.spread = Spread(seconds);
  if (result.step_seconds > 0) {
    result.samples_per_second = static_cast<double>(result.batch) / result.step_seconds;
  }
  const auto row_bytes = static_cast<int64_t>(sizeof(float)) * shape.hidden;
  const int64_t head = shape.labels * (row_bytes + static_cast<int64_t>(sizeof(float)));
  const auto input_rows = static_cast<int64_t>(Median(touched));
  const int64_t touched_bytes = input_rows * (row_bytes + static_cast<int64_t>(sizeof(uint32_t)));
  const int64_t whole_bytes = shape.features * row_bytes;
  result.gradient_bytes = head + row_bytes + std::min(touched_bytes, whole_bytes);
  result.whole_gradient_bytes = head + row_bytes + whole_bytes;
}

}  // namespace

Json DenseRunResult::ToJson() const {
  Json json;
  json["samples_per_second"] = samples_per_second;
  json["step_seconds"] = step_seconds;
  json["steps"] = steps.size();
  json["spread"] = spread;
  json["batch"] = batch;
  json["first_loss"] = steps.empty() ? 0.0 : steps.front().loss;
  json["last_loss"] = steps.empty() ? 0.0 : steps.back().loss;
  json["stages"] = {{"embed", MedianOf(steps, &DenseStep::embed)},
                    {"head_forward", MedianOf(steps, &DenseStep::head_forward)},
                    {"head_backward_and_adam", MedianOf(steps, &DenseStep::head_backward)},
                    {"input_adam", MedianOf(steps, &DenseStep::input_update)}};
  json["gradient_bytes"] = gradient_bytes;
  json["whole_gradient_bytes"] = whole_gradient_bytes;
  json["blas"] = BlasDescription();
  return json;
}

absl::StatusOr<DenseRunResult> RunDense(const Dataset& data, const DenseRunOptions& options) {
  if (options.steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("dense baseline: steps is ", options.steps, ", must be at least 1"));
  }
  DenseOptions shape;
  shape.features = data.num_features();
  shape.hidden = options.hidden;
  shape.labels = data.num_labels();
  shape.max_batch = options.batch;
  shape.adam.learning_rate = options.learning_rate;
  shape.seed = options.seed;
  shape.parallelism = options.parallelism;
  ASSIGN_OR_RETURN(const std::unique_ptr<DenseNetwork> network, DenseNetwork::Create(shape));
  DenseRunResult result;
  result.batch = std::min(options.batch, data.num_points());
  SparseBatch batch;
  std::vector<int64_t> points(result.batch);
  for (int64_t step = 0; step <= options.steps; ++step) {
    for (int64_t i = 0; i < result.batch; ++i) {
      const int64_t position = step * result.batch + i;
      const EpochOrder order(data.num_points(), options.seed, position / data.num_points());
      points[i] = order.PointAt(position % data.num_points());
    }
    RETURN_IF_ERROR(data.ReadSamples(points, &batch));
    RETURN_IF_ERROR(ApplyTransform(ValueTransform::kL2, {}, &batch));
    ASSIGN_OR_RETURN(const DenseStep timed, network->Train(batch));
    if (step > 0) result.steps.push_back(timed);
  }
  Summarize(shape, result);
  return result;
}

}  // namespace dslide::bench

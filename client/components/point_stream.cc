#include "client/components/point_stream.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/components/row_solving.h"
#include "client/components/tree_planting.h"
#include "core/base/status_macros.h"
#include "core/engine/data/read_run.h"
#include "core/engine/fusion/fusion_record.h"

namespace dslide {
namespace {

constexpr int64_t kPointsOfRequest = 1024;
constexpr int64_t kPointNumbers = int64_t{1} << 32;

absl::Status CheckStop(const std::function<bool()>& stop_requested) {
  if (stop_requested == nullptr || !stop_requested()) return absl::OkStatus();
  return absl::CancelledError("interrupted");
}

absl::Status CheckFits(const Dataset& data, int64_t first, const TableSpec& memory) {
  if (first < 0 || first > kPointNumbers - data.num_points()) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path(), ": its ", data.num_points(), " points would have the numbers ",
                     first, " to ", first + data.num_points() - 1, ", which must be in [0, ",
                     kPointNumbers, "): train a new model, whose memory counts from 0"));
  }
  const int64_t labels = memory.memory.labels;
  if (data.num_labels() <= labels) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(data.path(), " has ", data.num_labels(), " labels, the memory has ", labels,
                   ": it is other data, or --grow gives it the labels"));
}

absl::Status CheckValues(const Dataset& data, absl::Span<const int64_t> points,
                         const SparseBatch& samples, float bound) {
  for (int64_t sample = 0; sample < samples.samples(); ++sample) {
    const absl::Span<const float> values = samples.ValuesOf(sample);
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) <= bound) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(data.path(), ": point ", points[static_cast<size_t>(sample)],
                       ", counted from 0, has the value ", values[i], " for feature ",
                       samples.FeaturesOf(sample)[i].value(), ", the model's magnitude_bound is ",
                       bound, ": scale the values; nothing has changed"));
    }
  }
  return absl::OkStatus();
}

// Calls visit(points, samples) for as many points of the data as a request has, in their order,
// with the values that the model is sent.
template <typename Visit>
absl::Status ForEachRequest(const Dataset& data, ValueTransform transform,
                            absl::Span<const float> idf,
                            const std::function<bool()>& stop_requested, const Visit& visit) {
  SparseBatch samples;
  for (int64_t begin = 0; begin < data.num_points(); begin += kPointsOfRequest) {
    RETURN_IF_ERROR(CheckStop(stop_requested));
    ASSIGN_OR_RETURN(const std::vector<int64_t> points,
                     ReadRun(data, begin, kPointsOfRequest, &samples));
    RETURN_IF_ERROR(ApplyTransform(transform, idf, &samples));
    RETURN_IF_ERROR(visit(points, samples));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PointStream::Check() const { return CheckStop(parts_.stop_requested); }

absl::Status CheckPoints(const Dataset& data, int64_t first, const ModelSpec& spec,
                         ValueTransform transform, absl::Span<const float> idf,
                         const std::function<bool()>& stop_requested) {
  RETURN_IF_ERROR(CheckFits(data, first, *spec.FindRole(TableRole::kMemory)));
  const auto bound = static_cast<float>(spec.magnitude_bound);
  return ForEachRequest(data, transform, idf, stop_requested,
                        [&](absl::Span<const int64_t> points, const SparseBatch& samples) {
                          return CheckValues(data, points, samples, bound);
                        });
}

absl::Status PointStream::Append(const Dataset& data, int64_t first, const PointTimes& times) {
  RETURN_IF_ERROR(CheckFits(data, first, *parts_.tables.memory));
  const auto send = [&](absl::Span<const int64_t> points,
                        const SparseBatch& samples) -> absl::Status {
    std::vector<int64_t> numbers(points.begin(), points.end());
    for (int64_t& number : numbers) number += first;
    PointTimes part = times;
    if (!times.of_points.empty()) {
      part.of_points = times.of_points.subspan(static_cast<size_t>(points.front()), points.size());
    }
    return parts_.shards.AppendPoints(numbers, samples, part);
  };
  RETURN_IF_ERROR(ForEachRequest(data, parts_.transform, parts_.idf, parts_.stop_requested, send));
  return parts_.shards.Finish();
}

absl::Status PointStream::RefreshFusion() {
  const TableSpec* const table = parts_.tables.fusion;
  if (table == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string record, parts_.shards.GetRecord(*table, RowId(0)));
  ASSIGN_OR_RETURN(FusionWeights fusion, DecodeFusion(record));
  ASSIGN_OR_RETURN(const AppendPointsReply present, parts_.shards.CountPoints());
  fusion.points = present.points;
  return parts_.shards.PutRecord(*table, RowId(0), EncodeFusion(fusion));
}

absl::Status PointStream::Refresh() {
  const TreeShape& shape = *parts_.tables.shape;
  ASSIGN_OR_RETURN(label_points_, SolveAndCountCentroids(shape, parts_.shards));
  RETURN_IF_ERROR(parts_.shards.PutNumbers(shape.trees(), label_points_));
  RETURN_IF_ERROR(RefreshFusion());
  return parts_.shards.Finish();
}

absl::StatusOr<bool> PointStream::LacksLabels() {
  const TreeShape& shape = *parts_.tables.shape;
  if (shape.labels() == shape.base_labels()) return false;
  for (int64_t tree = 0; tree < shape.trees(); ++tree) {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> leaves, parts_.shards.GetNumbers(tree));
    for (auto label = static_cast<size_t>(shape.base_labels()); label < leaves.size(); ++label) {
      if (leaves[label] == kNoLeaf && label_points_[label] > 0) return true;
    }
  }
  return false;
}

absl::StatusOr<int64_t> PointStream::SolveTrees() {
  const int64_t before = parts_.shards.entries();
  const TreeShape& shape = *parts_.tables.shape;
  ASSIGN_OR_RETURN(const bool plants, LacksLabels());
  if (plants) {
    ASSIGN_OR_RETURN(const std::vector<std::string> centroids,
                     ReadCentroids(parts_.cluster, parts_.spec.name, parts_.tables));
    RETURN_IF_ERROR(Check());
    RETURN_IF_ERROR(PlantTrees(centroids, FeaturesOf(centroids), parts_.spec.seed, shape,
                               parts_.shards, parts_.parallelism)
                        .status());
  }
  for (int64_t tree = 0; tree < shape.trees(); ++tree) {
    RETURN_IF_ERROR(SolveTree(shape, tree, parts_.shards, [this] { return Check(); }));
  }
  RETURN_IF_ERROR(parts_.shards.Finish());
  return parts_.shards.entries() - before;
}

}  // namespace dslide

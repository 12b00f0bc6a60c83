#include "core/engine/data/transform.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"
#include "core/engine/data/file_output.h"
#include "core/engine/data/name_list.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/sparse_line.h"

namespace dslide {
namespace {

constexpr int64_t kBlockPoints = 1024;

float Damped(float value) {
  if (std::abs(value) < 1.0f) return value;
  return std::copysign(1.0f + std::log(std::abs(value)), value);
}

void ScaleToUnitLength(absl::Span<float> values) {
  double squares = 0.0;
  for (const float v : values) squares += static_cast<double>(v) * v;
  if (squares == 0.0) return;
  const double scale = 1.0 / std::sqrt(squares);
  for (float& v : values) v = static_cast<float>(v * scale);
}

// Counts, per feature, the points of `points` with it, into counts ([num_features]).
absl::Status CountFeatures(const Dataset& data, absl::Span<const int64_t> points,
                           SparseBatch* batch, std::vector<int64_t>* counts) {
  RETURN_IF_ERROR(data.ReadSamples(points, batch));
  for (const RowId feature : batch->features) ++(*counts)[feature.value()];
  return absl::OkStatus();
}

// The same over all points point_at(0 .. num_positions - 1), in parallel; -1 is no point.
template <typename PointAt>
absl::StatusOr<std::vector<int64_t>> CountFeaturesOf(const Dataset& data, int64_t num_positions,
                                                     Parallelism parallelism,
                                                     const PointAt& point_at) {
  const size_t threads = static_cast<size_t>(std::max(1, parallelism.threads));
  std::vector<std::vector<int64_t>> counts(
      threads, std::vector<int64_t>(static_cast<size_t>(data.num_features()), 0));
  std::vector<SparseBatch> batches(threads);
  const int64_t blocks = (num_positions + kBlockPoints - 1) / kBlockPoints;
  std::vector<absl::Status> statuses(static_cast<size_t>(blocks));
  ParallelFor(parallelism, blocks, 1, [&](int64_t block, int thread) {
    std::vector<int64_t> points;
    const int64_t end = std::min(num_positions, (block + 1) * kBlockPoints);
    for (int64_t i = block * kBlockPoints; i < end; ++i) {
      if (const int64_t point = point_at(i); point >= 0) points.push_back(point);
    }
    const size_t t = static_cast<size_t>(thread);
    statuses[static_cast<size_t>(block)] = CountFeatures(data, points, &batches[t], &counts[t]);
  });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  for (size_t t = 1; t < threads; ++t) {
    std::transform(counts[0].begin(), counts[0].end(), counts[t].begin(), counts[0].begin(),
                   std::plus<>());
  }
  return std::move(counts[0]);
}

absl::StatusOr<std::vector<int64_t>> CountTrainingFeatures(const Dataset& data,
                                                           const TrainingSplit& split,
                                                           Parallelism parallelism) {
  const absl::Span<const int64_t> all = data.DocumentFrequency();
  if (all.empty()) {
    return CountFeaturesOf(data, data.num_points(), parallelism, [&](int64_t point) {
      return split.IsValidation(point) ? int64_t{-1} : point;
    });
  }
  ASSIGN_OR_RETURN(std::vector<int64_t> counts,
                   CountFeaturesOf(data, split.num_validation(), parallelism,
                                   [&](int64_t i) { return split.ValidationPoint(i); }));
  for (size_t f = 0; f < counts.size(); ++f) counts[f] = all[f] - counts[f];
  return counts;
}

}  // namespace

absl::Status ApplyTransform(ValueTransform transform, absl::Span<const float> idf,
                            SparseBatch* batch) {
  if (transform == ValueTransform::kRaw) return absl::OkStatus();
  if (transform == ValueTransform::kTfIdf) {
    for (const RowId feature : batch->features) {
      if (feature.value() >= idf.size()) {
        return absl::InvalidArgumentError(absl::StrCat("feature ", feature.value(), " has no idf; ",
                                                       idf.size(), " features are known"));
      }
    }
    for (size_t i = 0; i < batch->features.size(); ++i) {
      batch->values[i] = Damped(batch->values[i]) * idf[batch->features[i].value()];
    }
  }
  for (int64_t s = 0; s < batch->samples(); ++s) ScaleToUnitLength(batch->MutableValuesOf(s));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ComputeIdf(const Dataset& data, const TrainingSplit& split,
                                              Parallelism parallelism) {
  if (split.num_points() != data.num_points()) {
    return absl::InvalidArgumentError(absl::StrCat("a split of ", split.num_points(),
                                                   " points does not fit ", data.path(), " with ",
                                                   data.num_points()));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> counts,
                   CountTrainingFeatures(data, split, parallelism));
  std::vector<float> idf(counts.size());
  const double points = static_cast<double>(split.num_training());
  for (size_t f = 0; f < counts.size(); ++f) {
    idf[f] = static_cast<float>(std::log((1.0 + points) / (1.0 + static_cast<double>(counts[f]))));
  }
  return idf;
}

FeatureStats FeatureStats::FromDataset(const Dataset& data, std::vector<float> idf) {
  FeatureStats stats;
  stats.idf = std::move(idf);
  stats.names.reserve(static_cast<size_t>(data.num_features()));
  for (int64_t f = 0; f < data.num_features(); ++f) {
    stats.names.emplace_back(data.FeatureName(f));
  }
  return stats;
}

absl::StatusOr<std::string> FeatureStats::ToText(const std::string& origin) const {
  if (idf.size() != names.size()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write ", origin, ": ", idf.size(),
                                                   " weights but ", names.size(), " names"));
  }
  std::string text;
  for (size_t f = 0; f < idf.size(); ++f) {
    if (names[f].find_first_of("\t\r\n") != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot write ", origin, ": the name of feature ", f,
                       " holds a tab or a line end: ", QuoteFound(names[f])));
    }
    char number[32];
    const auto written = std::to_chars(number, number + sizeof(number), idf[f]);
    const absl::string_view digits(number, static_cast<size_t>(written.ptr - number));
    absl::StrAppend(&text, digits, "\t", names[f], "\n");
  }
  return text;
}

absl::Status FeatureStats::Save(const std::string& path) const {
  ASSIGN_OR_RETURN(const std::string text, ToText(path));
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(out.Append(text));
  return out.Commit();
}

absl::StatusOr<FeatureStats> FeatureStats::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  return FromText(file.bytes(), path);
}

absl::StatusOr<FeatureStats> FeatureStats::FromText(absl::string_view text,
                                                    const std::string& origin) {
  LineReader reader(text);
  FeatureStats stats;
  absl::string_view line;
  while (reader.Next(&line)) {
    const size_t tab = line.find('\t');
    float value = 0.0f;
    if (tab == absl::string_view::npos || !ParseFloat(line.substr(0, tab), &value)) {
      return ParseError(origin, reader.line_number(),
                        {1, QuoteFound(line), "idf<TAB>name with a finite decimal idf"});
    }
    stats.idf.push_back(value);
    stats.names.emplace_back(line.substr(tab + 1));
  }
  return stats;
}

}  // namespace dslide

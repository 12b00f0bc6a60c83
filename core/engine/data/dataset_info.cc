#include "core/engine/data/dataset_info.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/read_run.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide {
namespace {

constexpr int64_t kCountedPoints = 1024;
constexpr int64_t kSampledPoints = 1000;

// Reads the whole set in blocks; visit(batch, thread) sees each block once, in no stated order.
template <typename Visit>
absl::Status VisitAll(const Dataset& data, Parallelism parallelism, const Visit& visit) {
  const int64_t blocks = (data.num_points() + kCountedPoints - 1) / kCountedPoints;
  std::vector<absl::Status> statuses(static_cast<size_t>(blocks));
  std::vector<SparseBatch> batches(static_cast<size_t>(std::max(1, parallelism.threads)));
  ParallelFor(parallelism, blocks, 1, [&](int64_t block, int thread) {
    const int64_t begin = block * kCountedPoints;
    SparseBatch* batch = &batches[static_cast<size_t>(thread)];
    statuses[static_cast<size_t>(block)] = ReadRun(data, begin, kCountedPoints, batch).status();
    if (statuses[static_cast<size_t>(block)].ok()) visit(*batch, thread);
  });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

// Counts of one thread; sums of whole numbers, so the order of adding does not matter.
struct Counts {
  std::vector<int64_t> features;  // points with each feature
  std::vector<int64_t> labels;
  int64_t max_features = 0;
  int64_t max_labels = 0;
  int64_t without_features = 0;
  int64_t without_labels = 0;

  void Add(const SparseBatch& batch) {
    for (const RowId f : batch.features) ++features[f.value()];
    for (const RowId l : batch.labels) ++labels[l.value()];
    for (int64_t s = 0; s < batch.samples(); ++s) {
      const int64_t f = static_cast<int64_t>(batch.FeaturesOf(s).size());
      const int64_t l = static_cast<int64_t>(batch.LabelsOf(s).size());
      max_features = std::max(max_features, f);
      max_labels = std::max(max_labels, l);
      without_features += f == 0;
      without_labels += l == 0;
    }
  }

  void Merge(const Counts& other) {
    for (size_t i = 0; i < features.size(); ++i) features[i] += other.features[i];
    for (size_t i = 0; i < labels.size(); ++i) labels[i] += other.labels[i];
    max_features = std::max(max_features, other.max_features);
    max_labels = std::max(max_labels, other.max_labels);
    without_features += other.without_features;
    without_labels += other.without_labels;
  }
};

absl::StatusOr<Counts> CountAll(const Dataset& data, Parallelism parallelism) {
  Counts empty;
  empty.features.assign(static_cast<size_t>(data.num_features()), 0);
  empty.labels.assign(static_cast<size_t>(data.num_labels()), 0);
  std::vector<Counts> counts(static_cast<size_t>(std::max(1, parallelism.threads)), empty);
  RETURN_IF_ERROR(VisitAll(data, parallelism, [&](const SparseBatch& batch, int thread) {
    counts[static_cast<size_t>(thread)].Add(batch);
  }));
  for (size_t t = 1; t < counts.size(); ++t) counts[0].Merge(counts[t]);
  return std::move(counts[0]);
}

// The most frequent first, ties by id; at most `count`.
std::vector<RowId> TopLabels(const std::vector<int64_t>& counts, int64_t count) {
  std::vector<RowId> order(counts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = RowId(static_cast<uint32_t>(i));
  const size_t kept = std::min(order.size(), static_cast<size_t>(std::max<int64_t>(count, 0)));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](RowId a, RowId b) {
                      const int64_t count_a = counts[a.value()];
                      const int64_t count_b = counts[b.value()];
                      return count_a != count_b ? count_a > count_b : a < b;
                    });
  order.resize(kept);
  return order;
}

}  // namespace

absl::StatusOr<DatasetInfo> DescribeDataset(const Dataset& data, Parallelism parallelism) {
  ASSIGN_OR_RETURN(const Counts counts, CountAll(data, parallelism));
  DatasetInfo info;
  info.points = data.num_points();
  info.features = data.num_features();
  info.labels = data.num_labels();
  const auto sum = [](const std::vector<int64_t>& v) {
    return static_cast<double>(std::accumulate(v.begin(), v.end(), int64_t{0}));
  };
  const auto used = [](const std::vector<int64_t>& v) {
    return static_cast<int64_t>(v.size()) - std::count(v.begin(), v.end(), 0);
  };
  info.features_per_point = sum(counts.features) / static_cast<double>(info.points);
  info.labels_per_point = sum(counts.labels) / static_cast<double>(info.points);
  info.max_features_per_point = counts.max_features;
  info.max_labels_per_point = counts.max_labels;
  info.points_without_features = counts.without_features;
  info.points_without_labels = counts.without_labels;
  info.features_used = used(counts.features);
  info.labels_used = used(counts.labels);
  return info;
}

absl::StatusOr<LabelCounts> CountLabels(const Dataset& data, Parallelism parallelism) {
  if (const absl::Span<const int64_t> known = data.LabelFrequency(); !known.empty()) {
    return LabelCounts{data.num_points(), {known.begin(), known.end()}};
  }
  ASSIGN_OR_RETURN(Counts counts, CountAll(data, parallelism));
  return LabelCounts{data.num_points(), std::move(counts.labels)};
}

absl::StatusOr<PointSizes> SamplePointSizes(const Dataset& data) {
  const int64_t stride = std::max<int64_t>(1, data.num_points() / kSampledPoints);
  std::vector<int64_t> points;
  for (int64_t p = 0; p < data.num_points(); p += stride) points.push_back(p);
  SparseBatch batch;
  RETURN_IF_ERROR(data.ReadSamples(points, &batch));
  const auto n = static_cast<double>(points.size());
  return PointSizes{static_cast<double>(batch.features.size()) / n,
                    static_cast<double>(batch.labels.size()) / n};
}

absl::Status CheckHasLabels(const Dataset& data) {
  SparseBatch batch;
  for (int64_t begin = 0; begin < data.num_points(); begin += kCountedPoints) {
    RETURN_IF_ERROR(ReadRun(data, begin, kCountedPoints, &batch).status());
    if (!batch.labels.empty()) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(data.path(),
                   ": no point has a label, so there is nothing to learn or to measure (a line is "
                   "label,label,... feature:value ..., and that of a point without labels begins "
                   "with a blank; labels that the model has retired do not count)"));
}

absl::StatusOr<PrecisionAtK> MostFrequentBaseline(const Dataset& train, const Dataset& test,
                                                  Parallelism parallelism) {
  RETURN_IF_ERROR(CheckSameShape(train, test));
  ASSIGN_OR_RETURN(const LabelCounts counts, CountLabels(train, parallelism));
  return MostFrequentBaseline(counts, test, parallelism);
}

absl::StatusOr<PrecisionAtK> MostFrequentBaseline(const LabelCounts& train, const Dataset& test,
                                                  Parallelism parallelism) {
  if (static_cast<int64_t>(train.of_label.size()) != test.num_labels()) {
    return absl::InvalidArgumentError(absl::StrCat(test.path(), " has ", test.num_labels(),
                                                   " labels, the training data has ",
                                                   train.of_label.size(), ": it is other data"));
  }
  const std::vector<RowId> predicted = TopLabels(train.of_label, 5);
  struct Hits {
    int64_t points = 0;  // with labels
    int64_t at_rank[5] = {};
  };
  std::vector<Hits> hits(static_cast<size_t>(std::max(1, parallelism.threads)));
  RETURN_IF_ERROR(VisitAll(test, parallelism, [&](const SparseBatch& batch, int thread) {
    Hits& mine = hits[static_cast<size_t>(thread)];
    for (int64_t s = 0; s < batch.samples(); ++s) {
      const absl::Span<const RowId> labels = batch.LabelsOf(s);
      mine.points += labels.empty() ? 0 : 1;
      for (size_t rank = 0; rank < predicted.size(); ++rank) {
        mine.at_rank[rank] += std::binary_search(labels.begin(), labels.end(), predicted[rank]);
      }
    }
  }));
  int64_t within[6] = {};  // hits among the first k predictions
  int64_t points = 0;
  for (const Hits& h : hits) {
    points += h.points;
    for (int k = 0; k < 5; ++k) within[k + 1] += h.at_rank[k];
  }
  for (int k = 1; k <= 5; ++k) within[k] += within[k - 1];
  PrecisionAtK precision;
  const double n = static_cast<double>(std::max<int64_t>(points, 1));
  precision.at_1 = static_cast<double>(within[1]) / n;
  precision.at_3 = static_cast<double>(within[3]) / (3.0 * n);
  precision.at_5 = static_cast<double>(within[5]) / (5.0 * n);
  return precision;
}

}  // namespace dslide

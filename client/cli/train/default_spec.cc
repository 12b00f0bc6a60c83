#include "client/cli/train/default_spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

constexpr int64_t kDefaultDim = 128;
// Labels with more points than this are worth a wider network, which costs little: they are few.
constexpr double kPointsForWide = 50;
// Below this popularity neighbours and trees know all that a network could learn, and it costs as
// much as they do (docs/understand/learning.md).
constexpr double kPopularityForNetwork = 50;
// With fewer points it takes more time than all the rest, and brings .002 to .003 of P@k.
constexpr int64_t kPointsForNetwork = 8192;
// A network beyond this, its optimizer's state included, costs more than it brings.
constexpr double kMostNetworkBytes = 256 << 20;
constexpr double kBytesPerWeight = 12;  // the weight and two moments
// More passes only learn the points by heart, fewer steps do not move it from where it starts.
constexpr int64_t kNetworkEpochs = 6;
constexpr int64_t kLeastNetworkSteps = 300;
// The more features a point has, the more of its row's weights only know the points by heart; rows
// of rare labels have few points to know.
constexpr double kFewFeatures = 12;
constexpr double kSomeFeatures = 40;

// A rare label is known to few points, which are not always among the nearest.
constexpr int64_t kNeighboursOfRare = 200;
constexpr int64_t kCandidatesOfRare = 400;

int64_t DimFor(const DataShape& shape) {
  return shape.points_of_label > kPointsForWide ? 2 * kDefaultDim : kDefaultDim;
}

bool LabelsAreRare(const DataShape& shape) {
  return shape.popularity > 0 && shape.popularity < kPopularityForNetwork;
}

double RowCostFor(const DataShape& shape) {
  if (LabelsAreRare(shape) || shape.features_per_point <= kFewFeatures) return 1;
  return shape.features_per_point <= kSomeFeatures ? 0.5 : 0.25;
}

double NetworkBytes(const DataShape& shape, int64_t dim) {
  return static_cast<double>((shape.features + shape.labels) * dim) * kBytesPerWeight;
}

TableSpec Table(const char* name, TableRole role) {
  TableSpec table;
  table.name = name;
  table.role = role;
  return table;
}

void AddNetwork(const DataShape& shape, ModelSpec& spec) {
  TrainingSpec& training = spec.training;
  training.input_dropout = 0.2;
  training.hidden_dropout = 0.5;
  const ScheduleSpec schedule = {.kind = ScheduleKind::kLinear, .final_fraction = 0.05};
  TableSpec input = Table("input", TableRole::kEmbedding);
  input.dim = DimFor(shape);
  input.bias_row = true;
  input.init = {.kind = InitKind::kGaussian, .scale = 0.05};
  input.optimizer.learning_rate = 0.01;
  input.optimizer.schedule = schedule;
  TableSpec labels = Table("labels", TableRole::kHead);
  labels.dim = input.dim;
  labels.init = {.kind = InitKind::kGaussian, .scale = 0.002};
  labels.optimizer.learning_rate = 0.006;
  labels.optimizer.schedule = schedule;
  // The memory names the active rows.
  labels.head.max_active = 0;
  labels.head.tail_rows = 32;
  spec.tables.push_back(std::move(input));
  spec.tables.push_back(std::move(labels));
  SetNetworkLength(shape.points, 1, spec);
}

}  // namespace

absl::StatusOr<DataShape> ShapeOf(const Dataset& data, const LabelCounts& counts) {
  ASSIGN_OR_RETURN(const PointSizes sizes, SamplePointSizes(data));
  DataShape shape{.points = data.num_points(),
                  .features = data.num_features(),
                  .labels = data.num_labels(),
                  .features_per_point = sizes.features};
  double sum = 0;
  double squares = 0;
  for (const int64_t count : counts.of_label) {
    shape.used_labels += count > 0 ? 1 : 0;
    sum += static_cast<double>(count);
    squares += static_cast<double>(count) * static_cast<double>(count);
  }
  if (sum == 0) return shape;
  shape.points_of_label = sum / static_cast<double>(shape.used_labels);
  shape.popularity = squares / sum;
  return shape;
}

bool NetworkFits(const DataShape& shape, int64_t dim) {
  return NetworkBytes(shape, dim > 0 ? dim : DimFor(shape)) <= kMostNetworkBytes;
}

void SetNetworkLength(int64_t points, double length, ModelSpec& spec) {
  TrainingSpec& training = spec.training;
  const int64_t steps = (points + training.batch_size - 1) / training.batch_size;
  const int64_t usual = std::max(kNetworkEpochs, kLeastNetworkSteps / steps);
  training.max_epochs = std::max<int64_t>(1, std::llround(length * static_cast<double>(usual)));
  for (TableSpec& table : spec.tables) {
    if (IsRecordRole(table.role)) continue;
    table.optimizer.schedule.decay_steps = training.max_epochs * steps;
  }
}

ModelSpec DefaultComponents(const DataShape& shape) {
  return ComponentsFor(
      shape, !LabelsAreRare(shape) && shape.points >= kPointsForNetwork && NetworkFits(shape));
}

ModelSpec ComponentsFor(const DataShape& shape, bool network) {
  ModelSpec spec;
  spec.name = "model";
  spec.activations = ActivationType::kBf16;
  spec.training.transform = InputTransform::kTfIdf;
  // The fusion has few weights: more points bring it nothing, and the trees miss them.
  spec.training.validation_max_samples = 1000;
  if (network) AddNetwork(shape, spec);
  TableSpec linear = Table("linear", TableRole::kLinear);
  linear.linear.cost = RowCostFor(shape);
  // Held-out points are many of a label's few. Elsewhere trees take most of the time.
  linear.linear.refit =
      shape.points_of_label <= kPointsForWide && (network || LabelsAreRare(shape));
  TableSpec points = Table("points", TableRole::kMemory);
  if (LabelsAreRare(shape)) {
    points.memory.neighbours = kNeighboursOfRare;
    points.memory.candidates = kCandidatesOfRare;
  }
  spec.tables.push_back(std::move(points));
  spec.tables.push_back(Table("trees", TableRole::kLabelTrees));
  spec.tables.push_back(std::move(linear));
  spec.tables.push_back(Table("fusion", TableRole::kFusion));
  return spec;
}

std::string ExplainComponents(const DataShape& shape, const ModelSpec& spec) {
  const TableSpec* const input = spec.FindRole(TableRole::kEmbedding);
  std::string text = absl::StrFormat("Without a spec: a memory, %d label trees and their fusion",
                                     spec.FindRole(TableRole::kLabelTrees)->trees.trees);
  if (input != nullptr) {
    absl::StrAppendFormat(&text,
                          ", with a network of width %d beside them for %d epochs: a label that a "
                          "point carries has %.0f points on average, enough to learn from",
                          input->dim, spec.training.max_epochs, shape.popularity);
  } else if (LabelsAreRare(shape)) {
    absl::StrAppendFormat(&text,
                          ", and no network: a label that a point carries has %.0f points on "
                          "average, which its neighbours know as well",
                          shape.popularity);
  } else if (shape.points < kPointsForNetwork) {
    absl::StrAppendFormat(&text,
                          ", and no network: %d points, fewer than %d, teach it too little for "
                          "the time that it takes",
                          shape.points, kPointsForNetwork);
  } else {
    absl::StrAppendFormat(&text, ", and no network: it would take %.0f MB, more than it brings",
                          NetworkBytes(shape, DimFor(shape)) / 1e6);
  }
  return absl::StrCat(text,
                      ". --spec-out FILE writes it; flags such as --dim ask for a network "
                      "alone.");
}

ModelSpec DefaultNetwork(int64_t num_labels) {
  ModelSpec spec;
  spec.name = "model";
  TableSpec input = Table("input", TableRole::kEmbedding);
  input.dim = kDefaultDim;
  input.bias_row = true;
  TableSpec labels = Table("labels", TableRole::kHead);
  labels.dim = kDefaultDim;
  if (num_labels <= kExactHeadRows) labels.head.max_active = 0;
  spec.tables = {std::move(input), std::move(labels)};
  // Half the bytes on the wire; docs/understand/hashing.md has what it does to accuracy (nothing to
  // be seen).
  spec.activations = ActivationType::kBf16;
  return spec;
}

}  // namespace dslide::cli

#include "client/components/component_trainer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/components/row_solving.h"
#include "client/components/tree_planting.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/engine/fusion/fusion_inputs.h"
#include "core/engine/memory/point_record.h"
#include "core/engine/trees/tree_rows.h"
#include "core/protocol/reason_words.h"

namespace dslide {
namespace {

constexpr int64_t kPointsAtOnce = 1024;

// Without held-out points: weights that do well on sets of text with labels of 10 to 100 points.
constexpr float kUsualWeights[kFusionInputs] = {0.0f, 0.25f, 0.3f, 0.06f, 0.15f, 0.08f, 2.1f, 0.0f};

// An input that never does is of a component that the model lacks.
bool Varies(const FusionSamples& samples, size_t input) {
  const auto width = static_cast<size_t>(samples.width);
  for (size_t at = input; at < samples.inputs.size(); at += width) {
    if (samples.inputs[at] != samples.inputs[input]) return true;
  }
  return false;
}

// By label; "" for one without points.
std::vector<std::string> Centroids(const TrainingPoints& points, const TreeShape& shape,
                                   Parallelism parallelism) {
  std::vector<std::string> centroids(static_cast<size_t>(shape.labels()));
  const auto all = [](RowId) { return true; };
  std::vector<MadeRow> made = MakeCentroids(points, shape, 0, shape.labels(), all, parallelism);
  for (size_t label = 0; label < made.size(); ++label) {
    centroids[label] = std::move(made[label].record);
  }
  return centroids;
}

}  // namespace

absl::Status ComponentTrainer::Check() const {
  if (parts_.stop_requested == nullptr || !parts_.stop_requested()) return absl::OkStatus();
  return absl::CancelledError("interrupted");
}

absl::StatusOr<SparseBatch> ComponentTrainer::Read(absl::Span<const int64_t> ids) const {
  SparseBatch samples;
  RETURN_IF_ERROR(parts_.data.ReadSamples(ids, &samples));
  RETURN_IF_ERROR(ApplyTransform(parts_.transform, parts_.idf, &samples));
  return samples;
}

absl::Status ComponentTrainer::Append(const std::vector<int64_t>& ids, bool send) {
  for (size_t first = 0; first < ids.size(); first += kPointsAtOnce) {
    RETURN_IF_ERROR(Check());
    const absl::Span<const int64_t> part = absl::MakeConstSpan(ids).subspan(first, kPointsAtOnce);
    ASSIGN_OR_RETURN(const SparseBatch samples, Read(part));
    if (send) RETURN_IF_ERROR(parts_.shards.AppendPoints(part, samples));
    for (int64_t i = 0; i < samples.samples(); ++i) {
      for (const RowId label : samples.LabelsOf(i)) ++label_points_[label.value()];
      if (!parts_.tables.shape.has_value()) continue;
      records_[static_cast<size_t>(part[static_cast<size_t>(i)])] =
          EncodePoint(samples.FeaturesOf(i), samples.ValuesOf(i), samples.LabelsOf(i));
    }
  }
  report_.points += static_cast<int64_t>(ids.size());
  return parts_.shards.Finish();
}

absl::Status ComponentTrainer::BuildTrees() {
  const TreeShape& shape = *parts_.tables.shape;
  std::vector<PointView> views(records_.size());
  for (size_t id = 0; id < records_.size(); ++id) {
    if (!records_[id].empty()) views[id] = PointView(records_[id].data());
  }
  const TrainingPoints points(std::move(views), shape.labels());
  const std::vector<std::string> centroids = Centroids(points, shape, parts_.parallelism);
  RETURN_IF_ERROR(Check());
  ASSIGN_OR_RETURN(leaves_, PlantTrees(centroids, points.features(), parts_.spec.seed, shape,
                                       parts_.shards, parts_.parallelism));
  return SolveCentroids(shape, parts_.shards);
}

absl::Status ComponentTrainer::SolveRows() {
  const TreeShape& shape = *parts_.tables.shape;
  const int64_t entries_before = parts_.shards.entries();
  parts_.say(absl::StrCat("building ", shape.trees(), " label trees of depth ", shape.depth()));
  RETURN_IF_ERROR(BuildTrees());
  for (int64_t tree = 0; tree < shape.trees(); ++tree) {
    parts_.say(absl::StrCat("solving the rows of tree ", tree + 1, " of ", shape.trees()));
    RETURN_IF_ERROR(SolveTree(shape, tree, parts_.shards, [this] { return Check(); }));
  }
  RETURN_IF_ERROR(parts_.shards.Finish());
  report_.entries = parts_.shards.entries() - entries_before;
  parts_.scorer.SetTrees(leaves_, label_points_);
  return absl::OkStatus();
}

absl::StatusOr<FusionSamples> ComponentTrainer::ScoreHeldOut(const std::vector<int64_t>& ids) {
  FusionSamples samples;
  samples.width = static_cast<int64_t>(kFusionInputs);
  for (size_t first = 0; first < ids.size(); first += ComponentShards::kQueriesAtOnce) {
    RETURN_IF_ERROR(Check());
    ASSIGN_OR_RETURN(const SparseBatch batch, Read(absl::MakeConstSpan(ids).subspan(
                                                  first, ComponentShards::kQueriesAtOnce)));
    ASSIGN_OR_RETURN(const std::vector<ComponentScores> scores,
                     parts_.scorer.Score(InputsOf(batch)));
    for (size_t i = 0; i < scores.size(); ++i) {
      const absl::Span<const RowId> truth = batch.LabelsOf(static_cast<int64_t>(i));
      AppendFusionInputs(scores[i], static_cast<double>(report_.points), samples.inputs);
      for (const RowId label : scores[i].labels) {
        samples.is_label.push_back(std::binary_search(truth.begin(), truth.end(), label) ? 1 : 0);
      }
      samples.offsets.push_back(static_cast<int64_t>(samples.is_label.size()));
      samples.labels.push_back(static_cast<int64_t>(truth.size()));
    }
  }
  return samples;
}

absl::StatusOr<FusionWeights> ComponentTrainer::Fit(const std::vector<int64_t>& ids) {
  FusionWeights fusion = {.weights = {std::begin(kUsualWeights), std::end(kUsualWeights)}};
  if (ids.empty()) return fusion;
  ASSIGN_OR_RETURN(const FusionSamples samples, ScoreHeldOut(ids));
  std::vector<float> weights = FitFusion(samples, parts_.parallelism);
  report_.fused_quality = RankingQuality(samples, weights);
  const std::vector<double> fused = RankingQualities(samples, weights);
  report_.held_out = static_cast<int64_t>(ids.size());
  double best = report_.fused_quality;
  fusion.weights = weights;
  for (size_t i = 0; i < kFusionInputs; ++i) {
    if (!Varies(samples, i)) continue;
    std::vector<float> alone(kFusionInputs);
    alone[i] = 1;
    const auto input = static_cast<FusionInput>(i);
    report_.components.push_back({.name = std::string(FusionInputName(input)),
                                  .quality = RankingQuality(samples, alone),
                                  .weight = weights[i]});
    if (report_.components.back().quality <= best) continue;
    // The weights that were fitted on these points lose to one component by chance, too.
    if (!ClearlyBetter(RankingQualities(samples, alone), fused)) continue;
    best = report_.components.back().quality;
    report_.alone = report_.components.back().name;
    fusion.weights = alone;
  }
  if (parts_.tables.shape.has_value()) {
    fusion.preselection = FitPreselection(samples, fusion.weights, parts_.parallelism);
    report_.preselected = fusion.preselection.candidates;
  }
  return fusion;
}

void ComponentTrainer::ReportFit(const ComponentReport& fit) {
  const int64_t points = report_.points;
  const int64_t entries = report_.entries;
  report_ = fit;
  report_.points = points;
  report_.entries = entries;
}

absl::StatusOr<FusionWeights> ComponentTrainer::MakeFusion() {
  ASSIGN_OR_RETURN(const std::string record,
                   parts_.shards.GetRecord(*parts_.tables.fusion, RowId(0)));
  if (record.empty()) {
    parts_.say(absl::StrCat("fitting the fusion on ", held_out_.size(), " held-out points"));
    ASSIGN_OR_RETURN(FusionWeights fusion, Fit(held_out_));
    fit_ = report_;
    return fusion;
  }
  // Points that were held out are in memory and trees of a model that was trained before, and would
  // say that those are never wrong.
  if (fit_.has_value()) {
    ReportFit(*fit_);
  } else {
    parts_.say("the fusion keeps its weights");
  }
  return DecodeFusion(record);
}

absl::Status ComponentTrainer::ReadTraining(bool send) {
  records_.assign(static_cast<size_t>(parts_.data.num_points()), "");
  label_points_.assign(static_cast<size_t>(parts_.tables.memory->memory.labels), 0);
  held_out_.clear();
  leaves_.clear();
  report_ = ComponentReport();
  std::vector<int64_t> training;
  for (int64_t id = 0; id < parts_.data.num_points(); ++id) {
    const bool validates = parts_.tables.fusion != nullptr && parts_.split.IsValidation(id);
    (validates ? held_out_ : training).push_back(id);
  }
  if (send) parts_.say(absl::StrCat("sending ", training.size(), " points"));
  if (absl::Status sent = Append(training, send); !sent.ok()) {
    if (ReasonOf(sent) != reason::kBadRowId) return sent;
    return StatusWithReason(
        sent.code(), ReasonOf(sent),
        absl::StrCat(sent.message(),
                     "; a model is trained again with the points that it has, in "
                     "their order, and later ones behind them: dslide append --grow adds new "
                     "points alone"));
  }
  read_ = true;
  return absl::OkStatus();
}

absl::Status ComponentTrainer::Prepare() { return ReadTraining(/*send=*/true); }

absl::StatusOr<ComponentReport> ComponentTrainer::Complete() {
  if (!read_) RETURN_IF_ERROR(ReadTraining(/*send=*/false));
  read_ = false;
  const auto& shape = parts_.tables.shape;
  if (shape.has_value()) RETURN_IF_ERROR(SolveRows());
  FusionWeights fusion;
  if (parts_.tables.fusion != nullptr) {
    ASSIGN_OR_RETURN(fusion, MakeFusion());
    // Before the held-out points join the memory: should this be cut off then, the weights are
    // here.
    fusion.points = report_.points;
    RETURN_IF_ERROR(parts_.shards.PutRecord(*parts_.tables.fusion, RowId(0), EncodeFusion(fusion)));
    RETURN_IF_ERROR(parts_.shards.Finish());
  }
  RETURN_IF_ERROR(Append(held_out_, /*send=*/true));
  fusion.points = report_.points;
  if (shape.has_value()) {
    if (parts_.tables.linear->linear.refit && !held_out_.empty()) {
      parts_.say("and once more, with the held-out points");
      RETURN_IF_ERROR(SolveRows());
    }
    RETURN_IF_ERROR(parts_.shards.PutNumbers(shape->trees(), label_points_));
    parts_.scorer.SetTrees(leaves_, label_points_);
  }
  if (parts_.tables.fusion != nullptr) {
    RETURN_IF_ERROR(parts_.shards.PutRecord(*parts_.tables.fusion, RowId(0), EncodeFusion(fusion)));
    parts_.scorer.SetFusion(std::move(fusion));
  }
  RETURN_IF_ERROR(parts_.shards.Finish());
  return report_;
}

}  // namespace dslide

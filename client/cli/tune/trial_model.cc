#include "client/cli/tune/trial_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/console/interrupt.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/engine/data/transform.h"

namespace dslide::cli {
namespace {

double QualityOf(absl::Span<const RowId> ranked, absl::Span<const RowId> truth) {
  double sum = 0;
  int64_t hits = 0;
  for (size_t i = 0; i < 5; ++i) {
    if (i < ranked.size() && std::binary_search(truth.begin(), truth.end(), ranked[i])) ++hits;
    if (i % 2 == 0) sum += static_cast<double>(hits) / static_cast<double>(i + 1);
  }
  return sum / 3;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrialModel>> TrialModel::Train(Parts parts) {
  std::unique_ptr<TrialModel> model(new TrialModel(std::move(parts)));
  RETURN_IF_ERROR(model->Open());
  RETURN_IF_ERROR(model->Run());
  return model;
}

TrialModel::~TrialModel() {
  trainer_.reset();
  components_.reset();
  if (!created_) return;
  const absl::Status dropped = parts_.cluster->DropModel(parts_.spec.name);
  if (dropped.ok()) return;
  parts_.progress.Say(absl::StrCat("NOTE: model \"", parts_.spec.name,
                                   "\" stays on the cluster: ", dropped.message()));
}

absl::Status TrialModel::Open() {
  ClusterClient& cluster = *parts_.cluster;
  const ModelSpec& spec = parts_.spec;
  if (spec.FindRole(TableRole::kHead) != nullptr) {
    ASSIGN_OR_RETURN(Network network, Network::Create(spec));
    network_ = std::make_unique<Network>(std::move(network));
  }
  ASSIGN_OR_RETURN(idf_, ComputeIdf(parts_.data, parts_.split, parts_.parallelism));
  ASSIGN_OR_RETURN(created_, cluster.CreateModel(spec));
  if (!created_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a model \"", spec.name, "\" is on the cluster already"));
  }
  ASSIGN_OR_RETURN(components_,
                   ComponentSession::Open(cluster, spec, network_.get(), idf_, parts_.parallelism));
  const auto interrupted = [] { return InterruptGuard::Interrupted(); };
  RETURN_IF_ERROR(components_->OpenTraining(
      parts_.data, parts_.split, [this](const std::string& text) { parts_.progress.Say(text); },
      interrupted));
  if (network_ != nullptr) {
    BatchPreparerOptions preparer;
    preparer.seed = spec.order_seed();
    preparer.idf = idf_;
    preparer.candidates = &components_->candidates();
    ASSIGN_OR_RETURN(preparer_, BatchPreparer::Open(cluster, *network_, std::move(preparer)));
  }
  TrainerOptions trainer;
  trainer.seed = spec.order_seed();
  trainer.parallelism = parts_.parallelism;
  trainer.stop_requested = interrupted;
  ASSIGN_OR_RETURN(trainer_, Trainer::Create({.cluster = cluster,
                                              .spec = spec,
                                              .network = network_.get(),
                                              .preparer = preparer_.get(),
                                              .stages = components_.get(),
                                              .data = parts_.data,
                                              .split = parts_.split,
                                              .progress = parts_.progress,
                                              .clock = SteadyClock()},
                                             std::move(trainer)));
  return absl::OkStatus();
}

absl::Status TrialModel::Run() {
  ASSIGN_OR_RETURN(const TrainingReport report, trainer_->Run());
  return report.interrupted ? absl::CancelledError("interrupted") : absl::OkStatus();
}

absl::StatusOr<std::vector<double>> TrialModel::Qualities(const Dataset& data,
                                                          absl::Span<const int64_t> points) {
  std::vector<double> qualities;
  for (size_t first = 0; first < points.size(); first += ComponentSession::kBatch) {
    SparseBatch samples;
    RETURN_IF_ERROR(data.ReadSamples(points.subspan(first, ComponentSession::kBatch), &samples));
    ASSIGN_OR_RETURN(const std::vector<Prediction> predictions, components_->Rank(samples, 5));
    for (size_t i = 0; i < predictions.size(); ++i) {
      const absl::Span<const RowId> truth = samples.LabelsOf(static_cast<int64_t>(i));
      if (!truth.empty()) qualities.push_back(QualityOf(predictions[i].labels, truth));
    }
  }
  return qualities;
}

absl::StatusOr<std::vector<AccuracyAtK>> TrialModel::Measure(const Dataset& data,
                                                             RankingMetrics metrics) {
  return MeasureRanking(
      data, AllPoints(data.num_points()), ComponentSession::kBatch, std::move(metrics),
      [this](SparseBatch samples, absl::Span<const int64_t>, int64_t k) {
        return components_->Rank(std::move(samples), k);
      },
      nullptr);
}

}  // namespace dslide::cli

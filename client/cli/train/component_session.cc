#include "client/cli/train/component_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/data/group_split.h"
#include "core/engine/data/transform.h"

namespace dslide::cli {
ComponentSession::ComponentSession(ClusterClient& cluster, const ModelSpec& spec,
                                   const Network* network, std::vector<float> idf,
                                   Parallelism parallelism, ModelUse use)
    : cluster_(cluster),
      spec_(spec),
      network_(network),
      idf_(std::move(idf)),
      parallelism_(parallelism),
      use_(use),
      tables_(spec) {}

absl::StatusOr<std::unique_ptr<ComponentSession>> ComponentSession::Open(
    ClusterClient& cluster, const ModelSpec& spec, const Network* network, std::vector<float> idf,
    Parallelism parallelism, ModelUse use) {
  if (spec.training.transform == InputTransform::kTfIdf && idf.empty()) {
    return absl::InvalidArgumentError(
        "the model weighs features by how rare they are, and the weights are in the --model-dir of "
        "the training: name it");
  }
  std::unique_ptr<ComponentSession> session(
      new ComponentSession(cluster, spec, network, std::move(idf), parallelism, use));
  RETURN_IF_ERROR(session->OpenSlots());
  RETURN_IF_ERROR(session->OpenStreams());
  return session;
}

absl::Status ComponentSession::OpenSlots() {
  ASSIGN_OR_RETURN(SlotMap memory_slots, cluster_.Slots(tables_.memory->num_slots));
  memory_slots_ = std::make_unique<SlotMap>(std::move(memory_slots));
  if (tables_.linear != nullptr) {
    ASSIGN_OR_RETURN(SlotMap linear_slots, cluster_.Slots(tables_.linear->num_slots));
    linear_slots_ = std::make_unique<SlotMap>(std::move(linear_slots));
  }
  shards_ = std::make_unique<ComponentShards>(tables_, std::vector<StepChannel*>(), *memory_slots_,
                                              linear_slots_.get(), &next_step_);
  NetworkLogits logits;
  if (network_ != nullptr) {
    ASSIGN_OR_RETURN(preparer_, BatchPreparer::Open(cluster_, *network_, {.idf = idf_}));
    logits = [this](const SparseInputs& inputs) -> CandidateLogits {
      auto asked = evaluator_->AskHidden(preparer_->PrepareInputs(inputs), next_step_++);
      return [this, asked = std::move(asked)](const ExplicitRows<RowId>& candidates) {
        return evaluator_->ScoreCandidates(asked, candidates);
      };
    };
  }
  scorer_ = std::make_unique<ComponentScorer>(tables_, *shards_, std::move(logits));
  return absl::OkStatus();
}

absl::Status ComponentSession::OpenStreams() {
  std::vector<StepChannel*> channels;
  if (use_ == ModelUse::kRead) {
    reads_ = cluster_.OpenReads(spec_);
    for (const auto& read : reads_) channels.push_back(read.get());
  } else {
    CloseStreams(streams_);
    ASSIGN_OR_RETURN(streams_, cluster_.OpenStreams(spec_, NewClientId()));
    for (const auto& stream : streams_) channels.push_back(stream.get());
  }
  shards_->Rebind(channels);
  if (network_ == nullptr) return absl::OkStatus();
  EvaluatorOptions options;
  options.parallelism = parallelism_;
  evaluator_ = std::make_unique<Evaluator>(
      *network_, *preparer_, std::move(channels),
      [this](const TopKCommand& query) { return cluster_.TopK(query); }, options);
  return absl::OkStatus();
}

ComponentSession::~ComponentSession() { CloseStreams(streams_); }

absl::Status ComponentSession::OpenTraining(const Dataset& data, const TrainingSplit& split,
                                            std::function<void(const std::string&)> say,
                                            std::function<bool()> stop_requested) {
  trainer_ = std::make_unique<ComponentTrainer>(
      ComponentTrainerParts{.spec = spec_,
                            .tables = tables_,
                            .shards = *shards_,
                            .scorer = *scorer_,
                            .data = data,
                            .split = split,
                            .transform = ToValueTransform(spec_.training.transform),
                            .idf = idf_,
                            .parallelism = parallelism_,
                            .say = std::move(say),
                            .stop_requested = std::move(stop_requested)});
  if (network_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(PointLabels known, PointLabels::Read(data));
  std::vector<uint32_t> label_points(static_cast<size_t>(tables_.memory->memory.labels));
  for (int64_t point = 0; point < known.points(); ++point) {
    if (split.IsValidation(point)) continue;
    for (const RowId label : known.Of(point)) ++label_points[label.value()];
  }
  // A smaller memory has other points in some of their rows.
  if (known.points() > tables_.memory->rows) known = PointLabels();
  candidates_ =
      std::make_unique<MemoryCandidates>(tables_.memory->memory, *shards_, std::move(known),
                                         std::move(label_points), split.num_training(), spec_.seed);
  return absl::OkStatus();
}

absl::Status ComponentSession::Complete() {
  ASSIGN_OR_RETURN(report_, trainer_->Complete());
  return absl::OkStatus();
}

PointStream ComponentSession::OpenPointStream(std::function<bool()> stop_requested) {
  return PointStream({.cluster = cluster_,
                      .spec = spec_,
                      .tables = tables_,
                      .shards = *shards_,
                      .transform = ToValueTransform(spec_.training.transform),
                      .idf = idf_,
                      .parallelism = parallelism_,
                      .stop_requested = std::move(stop_requested)});
}

absl::StatusOr<std::vector<Prediction>> ComponentSession::Rank(SparseBatch samples, int64_t k) {
  RETURN_IF_ERROR(ApplyTransform(ToValueTransform(spec_.training.transform), idf_, &samples));
  return scorer_->Rank(InputsOf(samples), k);
}

absl::StatusOr<TrainingSplit> SplitPoints(const std::string& group_file, int64_t num_points,
                                          const ModelSpec& spec) {
  if (group_file.empty()) {
    return TrainingSplit::Create(num_points, spec.seed, spec.training.validation_fraction,
                                 spec.training.validation_max_samples);
  }
  ASSIGN_OR_RETURN(const std::vector<uint32_t> groups, ReadGroups(group_file, num_points));
  const std::vector<uint8_t> held_out = HoldOutGroups(
      groups, spec.seed, spec.training.validation_fraction, spec.training.validation_max_samples);
  return TrainingSplit::FromHeldOut(held_out);
}

}  // namespace dslide::cli

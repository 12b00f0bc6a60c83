#include "client/cli/component_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/group_split.h"
#include "core/data/transform.h"

namespace dslide::cli {
namespace {

ValueTransform TransformOf(const ModelSpec& spec) {
  switch (spec.training.transform) {
    case InputTransform::kRaw:
      return ValueTransform::kRaw;
    case InputTransform::kL2:
      return ValueTransform::kL2;
    case InputTransform::kTfIdf:
      return ValueTransform::kTfIdf;
  }
  return ValueTransform::kRaw;
}

}  // namespace

ComponentSession::ComponentSession(const ModelSpec& spec, std::vector<float> idf)
    : spec_(spec), idf_(std::move(idf)), tables_(spec) {}

absl::StatusOr<std::unique_ptr<ComponentSession>> ComponentSession::Open(ClusterClient& cluster,
                                                                         const ModelSpec& spec,
                                                                         std::vector<float> idf) {
  if (spec.training.transform == InputTransform::kTfIdf && idf.empty()) {
    return absl::InvalidArgumentError(
        "the model weighs features by how rare they are, and the weights are in the --model-dir of "
        "the training: name it");
  }
  std::unique_ptr<ComponentSession> session(new ComponentSession(spec, std::move(idf)));
  ASSIGN_OR_RETURN(SlotMap memory_slots, cluster.Slots(session->tables_.memory->num_slots));
  session->memory_slots_ = std::make_unique<SlotMap>(std::move(memory_slots));
  if (session->tables_.linear != nullptr) {
    ASSIGN_OR_RETURN(SlotMap linear_slots, cluster.Slots(session->tables_.linear->num_slots));
    session->linear_slots_ = std::make_unique<SlotMap>(std::move(linear_slots));
  }
  ASSIGN_OR_RETURN(session->streams_, cluster.OpenStreams(spec, NewClientId()));
  std::vector<StepChannel*> channels;
  for (const auto& stream : session->streams_) channels.push_back(stream.get());
  session->shards_ = std::make_unique<ComponentShards>(
      session->tables_, std::move(channels), *session->memory_slots_, session->linear_slots_.get(),
      &session->next_step_);
  session->scorer_ = std::make_unique<ComponentScorer>(session->tables_, *session->shards_);
  return session;
}

ComponentSession::~ComponentSession() { CloseStreams(streams_); }

absl::StatusOr<ComponentReport> ComponentSession::Train(const Dataset& data,
                                                        absl::Span<const uint8_t> held_out,
                                                        Parallelism parallelism,
                                                        std::function<void(const std::string&)> say,
                                                        std::function<bool()> stop_requested) {
  ComponentTrainer trainer({.spec = spec_,
                            .tables = tables_,
                            .shards = *shards_,
                            .scorer = *scorer_,
                            .data = data,
                            .held_out = held_out,
                            .transform = TransformOf(spec_),
                            .idf = idf_,
                            .parallelism = parallelism,
                            .say = std::move(say),
                            .stop_requested = std::move(stop_requested)});
  return trainer.Run();
}

absl::StatusOr<std::vector<Prediction>> ComponentSession::Rank(SparseBatch samples, int64_t k) {
  RETURN_IF_ERROR(ApplyTransform(TransformOf(spec_), idf_, &samples));
  return scorer_->Rank(InputsOf(samples), k);
}

absl::StatusOr<std::vector<uint8_t>> ChooseHeldOut(const std::string& group_file,
                                                   const Dataset& data, const TrainingSplit& split,
                                                   const ModelSpec& spec) {
  if (!group_file.empty()) {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> groups, ReadGroups(group_file, data.num_points()));
    return HoldOutGroups(groups, spec.seed, spec.training.validation_fraction,
                         spec.training.validation_max_samples);
  }
  std::vector<uint8_t> held_out(static_cast<size_t>(data.num_points()));
  for (int64_t i = 0; i < split.num_validation(); ++i) {
    held_out[static_cast<size_t>(split.ValidationPoint(i))] = 1;
  }
  return held_out;
}

}  // namespace dslide::cli

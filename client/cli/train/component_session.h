// A model of memory, trees and linear rows on a cluster, with a network beside them or without: its
// streams, its training, its predictions.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/components/component_scorer.h"
#include "client/components/component_shards.h"
#include "client/components/component_spec.h"
#include "client/components/component_trainer.h"
#include "client/components/memory_candidates.h"
#include "client/components/point_stream.h"
#include "client/components/ranking.h"
#include "client/cpp/cluster_client.h"
#include "client/cpp/shard_stream.h"
#include "client/trainer/batch_preparer.h"
#include "client/trainer/evaluator.h"
#include "client/trainer/network.h"
#include "client/trainer/stage_worker.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/epoch_order.h"

namespace dslide::cli {

// What a session may do to the model. Who only reads needs the role reader alone.
enum class ModelUse { kRead, kChange };

// Thread safety: one thread.
class ComponentSession : public StageWorker {
 public:
  // Opens channels to the shards. `cluster`, `spec` and `network` (null: none) outlive it.
  //   idf : [features] for a model that wants it
  // Errors: those of the cluster; InvalidArgument when idf is missing.
  static absl::StatusOr<std::unique_ptr<ComponentSession>> Open(
      ClusterClient& cluster, const ModelSpec& spec, const Network* network, std::vector<float> idf,
      Parallelism parallelism, ModelUse use = ModelUse::kChange);
  ~ComponentSession() override;

  // Before training. `data` and `split` outlive the session. Errors: those of the data.
  absl::Status OpenTraining(const Dataset& data, const TrainingSplit& split,
                            std::function<void(const std::string&)> say,
                            std::function<bool()> stop_requested);
  // What the network's steps are fed with, once the memory is there. Where there is a network.
  CandidateSource& candidates() { return *candidates_; }
  // Stages of a training, see ComponentTrainer. The network learns between them.
  absl::Status Prepare() override { return trainer_->Prepare(); }
  absl::Status Complete() override;
  absl::Status Reopen() override { return OpenStreams(); }
  // Of this session's own Complete(); nothing when another trainer did it.
  const std::optional<ComponentReport>& report() const { return report_; }

  // What predictions need of a model that was trained before.
  absl::Status Load() { return scorer_->Load(); }

  // New points for the memory of a model that was trained before. Ends before the session.
  PointStream OpenPointStream(std::function<bool()> stop_requested);

  // The k best labels of each sample. Errors: those of the shards.
  absl::StatusOr<std::vector<Prediction>> Rank(SparseBatch samples, int64_t k);

  // Samples that Rank() is best given at once.
  static constexpr int64_t kBatch = ComponentShards::kQueriesAtOnce;

 private:
  ComponentSession(ClusterClient& cluster, const ModelSpec& spec, const Network* network,
                   std::vector<float> idf, Parallelism parallelism, ModelUse use);
  absl::Status OpenSlots();
  absl::Status OpenStreams();

  ClusterClient& cluster_;
  const ModelSpec& spec_;
  const Network* const network_;
  const std::vector<float> idf_;
  const Parallelism parallelism_;
  const ModelUse use_;
  const ComponentTables tables_;
  std::unique_ptr<SlotMap> memory_slots_;
  std::unique_ptr<SlotMap> linear_slots_;
  std::vector<std::unique_ptr<ShardStream>> streams_;  // to change, or
  std::vector<std::unique_ptr<StepChannel>> reads_;    // to read
  std::unique_ptr<ComponentShards> shards_;
  std::unique_ptr<BatchPreparer> preparer_;  // of the network's inputs
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<ComponentScorer> scorer_;
  std::unique_ptr<MemoryCandidates> candidates_;
  std::unique_ptr<ComponentTrainer> trainer_;
  std::optional<ComponentReport> report_;
  int64_t next_step_ = 1;
};

// Holds out as many points as the spec says: with a file that has a line for each point, whole
// groups of it; "": single points. Errors: those of ReadGroups() and TrainingSplit::Create().
absl::StatusOr<TrainingSplit> SplitPoints(const std::string& group_file, int64_t num_points,
                                          const ModelSpec& spec);

}  // namespace dslide::cli

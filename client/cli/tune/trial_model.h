// A model that is trained to see how good it is, on a cluster that many such models share.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/train/component_session.h"
#include "client/cpp/cluster_client.h"
#include "client/trainer/progress.h"
#include "client/trainer/trainer.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/epoch_order.h"
#include "core/engine/eval/ranking_metrics.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// Thread safety: one thread.
class TrialModel {
 public:
  struct Parts {
    std::unique_ptr<ClusterClient> cluster;  // of a job of the model's own
    ModelSpec spec;                          // with a memory; sizes known
    // These outlive the model.
    const Dataset& data;
    const TrainingSplit& split;
    ProgressSink& progress;
    Parallelism parallelism;
  };

  // Creates the model and trains it to the end. Whatever happens, nothing of it stays behind on the
  // cluster once the object is gone. Errors: those of the data and the cluster; FailedPrecondition
  // when a model of that name is there; Cancelled when the user has interrupted.
  static absl::StatusOr<std::unique_ptr<TrialModel>> Train(Parts parts);
  ~TrialModel();

  // How well it ranks the labels of each of the points that has some, in their order: the mean of
  // the precisions at 1, 3 and 5. Errors: those of the data and the shards.
  absl::StatusOr<std::vector<double>> Qualities(const Dataset& data,
                                                absl::Span<const int64_t> points);
  // Errors: those of MeasureRanking().
  absl::StatusOr<std::vector<AccuracyAtK>> Measure(const Dataset& data, RankingMetrics metrics);

 private:
  explicit TrialModel(Parts parts) : parts_(std::move(parts)) {}
  absl::Status Open();
  absl::Status Run();

  const Parts parts_;
  bool created_ = false;
  std::unique_ptr<Network> network_;  // null: none
  std::vector<float> idf_;            // [features]
  std::unique_ptr<ComponentSession> components_;
  std::unique_ptr<BatchPreparer> preparer_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace dslide::cli

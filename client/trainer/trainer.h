// A stateless trainer: takes leases of a job, trains their points, evaluates, keeps the best epoch.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/cluster_client.h"
#include "client/cpp/shard_stream.h"
#include "client/trainer/batch_preparer.h"
#include "client/trainer/evaluator.h"
#include "client/trainer/network.h"
#include "client/trainer/progress.h"
#include "client/trainer/stage_worker.h"
#include "client/trainer/step_pipeline.h"
#include "client/trainer/trainer_metrics.h"
#include "client/trainer/work_feed.h"
#include "core/base/clock.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/epoch_order.h"

namespace dslide {

struct TrainerOptions {
  uint64_t seed = 1;      // of the order of the points, of dropout and of recall samples
  int64_t max_steps = 0;  // of this trainer; 0: until the job is finished
  Parallelism parallelism = {};
  // How long the coordinator may be away before training fails.
  absl::Duration coordinator_patience = absl::Minutes(2);
  // Asked between batches; true ends the training as the step limit does. May be null.
  std::function<bool()> stop_requested = {};
  // Hears of every finished step; for tests. May be null.
  std::function<void(const FinishedStep&)> on_step = {};
};

// What the trainer works with. Everything must outlive it.
struct TrainerParts {
  ClusterClient& cluster;
  const ModelSpec& spec;
  // Both null: a model of records alone, whose job has stages and no epochs.
  const Network* network = nullptr;
  const BatchPreparer* preparer = nullptr;
  StageWorker* stages = nullptr;  // null: the job has none
  const Dataset& data;
  const TrainingSplit& split;
  ProgressSink& progress;
  const Clock& clock;
  TrainerMetrics* metrics = nullptr;  // may be null
};

struct TrainingReport {
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t epochs = 0;     // begun by this trainer
  double seconds = 0;     // of training; evaluations are not counted
  double first_loss = 0;  // mean over the samples of its first step
  double last_loss = 0;   // mean over the samples of the last epoch this trainer saw
  int64_t active_pairs = 0;
  int64_t distinct_rows = 0;
  int64_t rejected_rows = 0;  // updates left out for the model's magnitude bound
  RecallCount recall;         // sampled in the last epoch
  int64_t best_epoch = -1;    // -1: nothing was evaluated
  double best_metric = 0;
  bool best_restored = false;  // the shards hold the best epoch's rows now
  bool cancelled = false;      // somebody has ended the job before its last epoch
  bool stopped_at_step_limit = false;
  bool interrupted = false;    // stop_requested said so
  int64_t new_beginnings = 0;  // after the cluster was taken back to a checkpoint
  StageSeconds stages;
};

// Thread safety: one thread. Its WorkFeed and streams have threads of their own.
class Trainer {
 public:
  // Opens the step streams and joins the job `cluster.options().job`.
  // Errors: those of the coordinator and the shards.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(TrainerParts parts,
                                                         TrainerOptions options);
  // Leaves the job and closes the client at the shards.
  ~Trainer();

  // Trains until the job is finished or the step limit is reached. Call once.
  // Errors: those of the data, the shards and (after its patience) the coordinator. What was
  // trained until then stays in the shards.
  absl::StatusOr<TrainingReport> Run();

  // Accuracy of the network on any dataset of the same shape, before or after Run():
  // Evaluator::Evaluate() over all of its points. `progress` may be null.
  absl::StatusOr<std::vector<AccuracyAtK>> Evaluate(const Dataset& data, RankingMetrics metrics,
                                                    const std::function<void(int64_t)>& progress);
  // Predictions for single points, and what hashing would have found. Of a model with a network.
  Evaluator& evaluator() { return *evaluator_; }
  int64_t* next_step() { return &next_step_; }

 private:
  // Steps of a chunk that are handed to the pipeline, and finished.
  struct ChunkState {
    int64_t submitted = 0;
    int64_t finished = 0;
    bool complete = false;  // no further step will be submitted
    LeaseReport report;
  };

  Trainer(TrainerParts parts, TrainerOptions options);
  absl::Status Open();
  absl::Status JoinJob();
  // Continues as a new client if the cluster was restored from a checkpoint or this client was
  // evicted. Errors: `why` in all other cases.
  absl::Status BeginAnew(const absl::Status& why);
  absl::Status AwaitRestore(const absl::Status& why);
  // Leaves the job and ends the feed, the pipeline and the streams of this client.
  void Leave();
  absl::StatusOr<bool> Handle(FeedItem item);  // false: the end
  absl::Status TrainBatch(PreparedBatch batch);
  absl::Status Drain();
  absl::Status RunStage(const StageWork& work);
  void OnFinishedStep(const FinishedStep& step);
  void ReportIfDone(uint64_t lease);
  // Repeats a call of the coordinator while that does not know the model.
  absl::Status OnceKnown(const std::function<absl::Status()>& call);
  absl::Status RunEvaluation(const EvaluationWork& work);
  absl::StatusOr<bool> RestoreBest(int64_t best_epoch);
  void ShowProgress(const FinishedStep& step);

  const TrainerParts parts_;
  const TrainerOptions options_;
  ClientId client_;
  uint64_t restore_count_ = 0;  // of the cluster when this client began
  std::vector<std::unique_ptr<ShardStream>> streams_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<StepPipeline> pipeline_;
  std::unique_ptr<WorkFeed> feed_;
  bool joined_ = false;
  bool can_checkpoint_ = true;
  int64_t next_step_ = 1;
  absl::flat_hash_map<uint64_t, ChunkState> chunks_;  // by lease
  TrainingReport report_;
  int64_t stages_done_ = 0;
  int64_t work_at_beginning_ = -1;  // steps and stages done
  double evaluation_seconds_ = 0;

  // Of the last epoch seen.
  int64_t loss_epoch_ = -1;
  int64_t epoch_samples_ = 0;
  double epoch_loss_ = 0;
  // Since the last progress report.
  struct Window {
    absl::Duration start;
    int64_t samples = 0;
    int64_t steps = 0;
    double loss = 0;
    int64_t active_pairs = 0;
    int64_t distinct_rows = 0;
    RecallCount recall;
  } window_;
};

// The points of a dataset: 0 .. count - 1.
std::vector<int64_t> AllPoints(int64_t count);

}  // namespace dslide

// A trained model ready to be asked: what `eval`, `predict` and `append` work with.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/cluster/cluster_session.h"
#include "client/cli/console/global_options.h"
#include "client/cli/model/model_dir.h"
#include "client/cli/model/model_dir_writer.h"
#include "client/cli/source/served_dataset_client.h"
#include "client/cli/train/component_session.h"
#include "client/cli/train/import_options.h"
#include "client/cli/train/imported_data.h"
#include "client/cli/train/label_filter.h"
#include "client/trainer/batch_preparer.h"
#include "client/trainer/evaluator.h"
#include "client/trainer/network.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

struct ModelOptions {
  std::string model_dir;
  std::string cluster;
  std::string name;  // of the model in the cluster; "": that of model_dir, or the only one
  int64_t threads = 0;
  std::string job = "query";  // that the session works for
  ImportFlags import = {};    // of data in the form of other programs
  ModelUse use = ModelUse::kRead;
  // Predictions are asked for again while shards are away, for as long as one call may take.
  bool repeat = true;
  // Of the exact labels, what hashed ones have at least; 0: what training selects.
  double recall = 0;
  bool rows_only = false;  // neither ranks nor evaluates: no streams to the shards
};

void AddModelOptions(CliCommand app, ModelOptions& options);
// Those, and how OpenDataset() reads files of other programs.
void AddModelDataOptions(CliCommand app, ModelOptions& options);
// Errors: InvalidArgument when the wanted recall is none.
absl::Status CheckRecall(double recall);

// Not thread-safe.
class ModelSession {
 public:
  // Loads model_dir's files if there is one, else the texts that the cluster has; starts its
  // embedded cluster or connects to the one named, and opens channels to the shards. Unless it
  // changes the model, nothing in model_dir changes, and a training may put another model there
  // meanwhile. Errors: InvalidArgument without --model-dir and --cluster; NotFound when there is no
  // such model; DataLoss when rows of model_dir are missing; those of ClusterSession.
  static absl::StatusOr<std::unique_ptr<ModelSession>> Open(const GlobalOptions& global,
                                                            const ModelOptions& options);
  ~ModelSession() = default;

  const StoredModel& model() const { return model_; }
  ClusterClient& client() { return session_->client(); }
  // The k best labels of each sample. `points`, their numbers, only show in errors. hashed: among
  // what hashing finds, for models that hash.
  absl::StatusOr<std::vector<Prediction>> Rank(SparseBatch samples,
                                               absl::Span<const int64_t> points, int64_t k,
                                               bool hashed);
  // `filter` may be null.
  absl::StatusOr<std::vector<AccuracyAtK>> Evaluate(const Dataset& data, RankingMetrics metrics,
                                                    LabelFilter* filter);
  // The same for hidden vectors, [samples, head dim], where network() is not null.
  absl::StatusOr<std::vector<Prediction>> RankHidden(std::vector<float> hidden, int64_t k,
                                                     bool hashed);
  // Evaluator::MeasureRecall() over the first points; zero samples for a model without hashing.
  absl::StatusOr<RecallCount> MeasureRecall(const Dataset& data);
  Parallelism parallelism() const { return parallelism_; }
  // What predictions go through; null for a model that has a memory, whatever learns beside it.
  const Network* network() const { return components_ == nullptr ? network_.get() : nullptr; }
  ClusterClient& cluster() { return session_->client(); }
  // Null for a model without a memory.
  ComponentSession* components() { return components_.get(); }
  // Opens data that fits the model, without labels that it has retired. Errors: those of OpenData()
  // and OpenDataFor().
  absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const std::string& path) const;
  // The same for a memory, with all labels.
  absl::StatusOr<std::unique_ptr<Dataset>> OpenPoints(const std::string& path) const;

  // Opens points with labels or features that the model may not have: those get the next numbers,
  // and the model the rows that they need, here and in its cluster or model_dir. Of a session that
  // changes a model with a memory. Nothing that components() returned before may be in use.
  // `check` looks at the data, and at the model as it would be, before anything changes.
  // Errors: its own; those of OpenTrainingData(), CheckTexts() and ClusterClient.
  using CheckData = absl::FunctionRef<absl::Status(const Dataset& data, const StoredModel& model)>;
  absl::StatusOr<std::unique_ptr<Dataset>> GrowFor(const ModelOptions& options,
                                                   const std::string& path, CheckData check);

  // The model is as `spec` says from now on, also in model_dir. Of a session that changes it.
  // Errors: system errors naming the file.
  absl::Status KeepSpec(ModelSpec spec);

  // Ends the session; one that writes puts its rows into model_dir. Errors: what kept it from doing
  // so.
  absl::Status Close();

 private:
  ModelSession() = default;
  // Asks again while shards are away, as ModelOptions say.
  absl::StatusOr<std::vector<Prediction>> Repeat(
      absl::FunctionRef<absl::StatusOr<std::vector<Prediction>>()> ask) const;
  static absl::StatusOr<std::unique_ptr<ModelSession>> OpenOnce(const GlobalOptions& global,
                                                                const ModelOptions& options);
  absl::Status OpenEmbedded(const ModelOptions& options, ClientOptions client);
  absl::Status FindModel(const ModelOptions& options);
  absl::Status OpenChannels(const ModelOptions& options);
  absl::StatusOr<std::unique_ptr<Dataset>> TryToGrow(const ModelOptions& options,
                                                     const std::string& path, CheckData check);
  // The model with what the data has beside.
  absl::StatusOr<StoredModel> GrownFor(const ImportedData& input) const;

  Parallelism parallelism_;
  StoredModel model_;
  ImportFlags import_;
  ServedDataOptions served_;
  std::unique_ptr<ModelDirWriter> directory_;  // of one that writes; outlives session_
  std::unique_ptr<ClusterSession> session_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<BatchPreparer> preparer_;
  std::vector<std::unique_ptr<StepChannel>> reads_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<ComponentSession> components_;  // instead of all from network_ on
  int64_t next_step_ = 1;
  bool repeat_ = true;
};

}  // namespace dslide::cli

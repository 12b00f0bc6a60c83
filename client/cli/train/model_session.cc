#include "client/cli/train/model_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/cluster/table_growth.h"
#include "client/cli/console/terminal.h"
#include "client/cli/model/text_assets.h"
#include "client/cli/train/data_source.h"
#include "client/cli/train/model_resume.h"
#include "client/cpp/unary_call.h"
#include "client/trainer/trainer.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/engine/data/transform.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/spec/model_growth.h"
#include "core/spec/spec_difference.h"
#include "core/spec/table_rows.h"

namespace dslide::cli {
namespace {

constexpr int64_t kEvaluationBatch = 256;
constexpr int64_t kModelSessionRecallPoints = 2000;
// Beyond it a hashed search scores so many rows that an exact one costs less.
constexpr double kMostRecall = 0.999;
// Of names that several give at the same time.
constexpr int kMostGrowAttempts = 5;
// Of a directory whose model is replaced while it is read.
constexpr int kMaxReadAttempts = 5;

// Rows of one training and the names and weights of another would fit by their sizes alone.
absl::Status CheckSameModel(const ModelSpec& cluster, ModelSpec kept,
                            const std::string& directory) {
  kept.name = cluster.name;  // --name may choose another
  const std::optional<SpecDifference> difference = FirstDifference(cluster, kept);
  if (!difference.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model \"", cluster.name, "\" of the cluster is not the one of ", directory, ": its ",
      Describe(*difference), "; leave out --cluster or --model-dir, or name the directory of that ",
      "training"));
}

// What the directory of a training says of labels and features, for all that the model has by now:
// later ones have no names, no points that had them, and weigh as the rarest.
void CoverAllRows(StoredModel& model) {
  const TableSpec* const embedding = model.spec.FindRole(TableRole::kEmbedding);
  const auto cover = [](auto& all, int64_t count, const auto& value) {
    if (!all.empty() && count > static_cast<int64_t>(all.size())) {
      all.resize(static_cast<size_t>(count), value);
    }
  };
  cover(model.labels, model.spec.num_labels(), std::string());
  cover(model.label_counts.of_label, model.spec.num_labels(), int64_t{0});
  if (embedding == nullptr) return;
  cover(model.features.names, NumFeatures(*embedding), std::string());
  if (model.features.idf.empty()) return;
  cover(model.features.idf, NumFeatures(*embedding),
        *std::max_element(model.features.idf.begin(), model.features.idf.end()));
}

}  // namespace

void AddModelOptions(CliCommand app, ModelOptions& options) {
  AddOption(app, "--model-dir", options.model_dir, "Directory that train --model-dir wrote");
  AddOption(app, "--cluster", options.cluster,
            "Coordinator HOST:PORT of the cluster that holds the rows");
  AddOption(app, "--name", options.name, "Name of the model in the cluster");
  AddThreads(app, options.threads, "Threads; 0: all of the machine");
}

absl::Status CheckRecall(double recall) {
  if (recall >= 0 && recall <= kMostRecall) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--recall ", recall, ": must be in [0, ", kMostRecall,
                   "]; for all that an exact search finds, leave out hashing"));
}

void AddModelDataOptions(CliCommand app, ModelOptions& options) {
  AddModelOptions(app, options);
  AddSourceOptions(app, "--text-column", "--label-column", options.import);
}

absl::StatusOr<std::unique_ptr<ModelSession>> ModelSession::Open(const GlobalOptions& global,
                                                                 const ModelOptions& options) {
  if (options.model_dir.empty()) return OpenOnce(global, options);
  for (int attempt = 1;; ++attempt) {
    ASSIGN_OR_RETURN(const std::string version, ModelDirVersion(options.model_dir));
    absl::StatusOr<std::unique_ptr<ModelSession>> session = OpenOnce(global, options);
    const absl::StatusOr<std::string> now = ModelDirVersion(options.model_dir);
    // Texts of one model and rows of the next would go together without an error.
    if (attempt == kMaxReadAttempts || (now.ok() && *now == version)) return session;
  }
}

absl::StatusOr<std::unique_ptr<ModelSession>> ModelSession::OpenOnce(const GlobalOptions& global,
                                                                     const ModelOptions& options) {
  if (options.model_dir.empty() && options.cluster.empty()) {
    return absl::InvalidArgumentError("name the model: --model-dir DIR, or --cluster HOST:PORT");
  }
  std::unique_ptr<ModelSession> session(new ModelSession());
  session->repeat_ = options.repeat;
  session->parallelism_ = ThreadsOrAll(options.threads);
  session->import_ = options.import;
  ASSIGN_OR_RETURN(session->served_, ServedDataOf(global));
  const bool embedded = options.cluster.empty();
  if (options.use == ModelUse::kChange && embedded) {
    ASSIGN_OR_RETURN(session->directory_,
                     ModelDirWriter::Open(options.model_dir, ModelDirUse::kContinue));
  }
  if (!options.model_dir.empty()) {
    ASSIGN_OR_RETURN(session->model_, LoadModel(options.model_dir));
  }
  ClientOptions client;
  ASSIGN_OR_RETURN(client.timeout, global.Timeout());
  client.job = options.job;
  if (embedded) {
    RETURN_IF_ERROR(session->OpenEmbedded(options, std::move(client)));
  } else {
    ASSIGN_OR_RETURN(session->session_, ClusterSession::Connect(options.cluster, global.Channels(),
                                                                std::move(client)));
  }
  RETURN_IF_ERROR(session->FindModel(options));
  CoverAllRows(session->model_);
  if (!options.rows_only) RETURN_IF_ERROR(session->OpenChannels(options));
  return session;
}

absl::Status ModelSession::OpenEmbedded(const ModelOptions& options, ClientOptions client) {
  if (model_.origin.shards < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.model_dir, " was trained on a cluster, which holds its rows: add ",
                     "--cluster HOST:PORT"));
  }
  RETURN_IF_ERROR(CheckRowsKept(options.model_dir, model_));
  EmbeddedOptions embedded;
  embedded.shards = model_.origin.shards;
  embedded.parallelism = parallelism_;
  embedded.rows_from = options.model_dir;
  if (directory_ != nullptr) {
    RETURN_IF_ERROR(SaveModel(directory_->staging(), model_));
    embedded.data_dir = directory_->staging();
  }
  ASSIGN_OR_RETURN(session_, ClusterSession::StartEmbedded(embedded, std::move(client)));
  return absl::OkStatus();
}

absl::Status ModelSession::FindModel(const ModelOptions& options) {
  ClusterClient& cluster = session_->client();
  std::string name = options.name.empty() ? model_.spec.name : options.name;
  if (name.empty()) {
    ASSIGN_OR_RETURN(const std::vector<ModelSpec> known, cluster.coordinator().ListModels());
    ASSIGN_OR_RETURN(name, ChooseModel(known, name));
  }
  ASSIGN_OR_RETURN(ModelSpec spec, cluster.FindModel(name));
  if (!options.model_dir.empty()) {
    RETURN_IF_ERROR(CheckSameModel(spec, model_.spec, options.model_dir));
  }
  model_.spec = std::move(spec);
  if (!options.model_dir.empty()) return absl::OkStatus();
  return FetchTexts(cluster.coordinator(), &model_).status();
}

absl::Status ModelSession::OpenChannels(const ModelOptions& options) {
  ClusterClient& cluster = session_->client();
  const bool has_components = HasComponents(model_.spec);
  if (!has_components || model_.spec.FindRole(TableRole::kHead) != nullptr) {
    ASSIGN_OR_RETURN(Network network, Network::Create(model_.spec));
    network_ = std::make_unique<Network>(std::move(network));
  }
  if (has_components) {
    ASSIGN_OR_RETURN(components_,
                     ComponentSession::Open(cluster, model_.spec, network_.get(),
                                            model_.features.idf, parallelism_, options.use));
    return components_->Load();
  }
  absl::StatusOr<std::unique_ptr<BatchPreparer>> made =
      BatchPreparer::Open(cluster, *network_, {.idf = model_.features.idf});
  if (!made.ok()) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kUnknownAssets,
        absl::StrCat(made.status().message(),
                     "; the cluster does not know them, and the --model-dir of the "
                     "training does: name it"));
  }
  preparer_ = *std::move(made);
  reads_ = cluster.OpenReads(model_.spec);
  std::vector<StepChannel*> channels;
  for (const auto& read : reads_) channels.push_back(read.get());
  EvaluatorOptions evaluator;
  evaluator.batch_size = kEvaluationBatch;
  evaluator.parallelism = parallelism_;
  evaluator.recall = options.recall;
  evaluator_ = std::make_unique<Evaluator>(
      *network_, *preparer_, std::move(channels),
      [&cluster](const TopKCommand& query) { return cluster.TopK(query); }, evaluator);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Prediction>> ModelSession::Rank(SparseBatch samples,
                                                           absl::Span<const int64_t> points,
                                                           int64_t k, bool hashed) {
  if (components_ != nullptr) {
    return Repeat([&] { return components_->Rank(samples, k); });
  }
  ASSIGN_OR_RETURN(const PreparedBatch batch,
                   preparer_->PrepareSamples(std::move(samples), BatchUse::kEvaluation, 0, points));
  return Repeat([&] { return evaluator_->Predict(batch, k, hashed, next_step_++); });
}

absl::StatusOr<std::vector<Prediction>> ModelSession::RankHidden(std::vector<float> hidden,
                                                                 int64_t k, bool hashed) {
  return evaluator_->Score(std::move(hidden), k, hashed);
}

absl::StatusOr<std::vector<Prediction>> ModelSession::Repeat(
    absl::FunctionRef<absl::StatusOr<std::vector<Prediction>>()> ask) const {
  if (!repeat_) return ask();
  const ClientOptions& client = session_->client().options();
  return RepeatUnavailable(client.retry, absl::Now() + client.timeout, /*salt=*/0, ask);
}

absl::StatusOr<std::vector<AccuracyAtK>> ModelSession::Evaluate(const Dataset& data,
                                                                RankingMetrics metrics,
                                                                LabelFilter* filter) {
  const int64_t batch = components_ != nullptr ? ComponentSession::kBatch : kEvaluationBatch;
  const RankLabels rank = [this](SparseBatch samples, absl::Span<const int64_t> points, int64_t k) {
    return Rank(std::move(samples), points, k, /*hashed=*/false);
  };
  const RankLabels filtered = [&](SparseBatch samples, absl::Span<const int64_t> points,
                                  int64_t k) {
    return filter->Rank(std::move(samples), points, k, rank);
  };
  return MeasureRanking(data, AllPoints(data.num_points()), batch, std::move(metrics),
                        filter == nullptr ? rank : filtered, nullptr);
}

absl::StatusOr<RecallCount> ModelSession::MeasureRecall(const Dataset& data) {
  if (components_ != nullptr) return RecallCount();
  return evaluator_->MeasureRecall(
      data, AllPoints(std::min(data.num_points(), kModelSessionRecallPoints)), &next_step_);
}

absl::StatusOr<std::unique_ptr<Dataset>> ModelSession::OpenDataset(const std::string& path) const {
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, OpenPoints(path));
  return WithoutRetiredLabels(std::move(data), model_.spec);
}

absl::StatusOr<std::unique_ptr<Dataset>> ModelSession::OpenPoints(const std::string& path) const {
  return OpenDataFor(model_, path, import_, served_, parallelism_);
}

absl::StatusOr<StoredModel> ModelSession::GrownFor(const ImportedData& input) const {
  const Dataset& data = *input.data;
  StoredModel grown;
  const TableSpec* const embedding = model_.spec.FindRole(TableRole::kEmbedding);
  const MemorySpec& memory = model_.spec.FindRole(TableRole::kMemory)->memory;
  if (data.num_labels() < BaseLabels(memory) ||
      (embedding != nullptr && data.num_features() < BaseFeatures(*embedding))) {
    return absl::InvalidArgumentError(
        absl::StrCat(data.path(), " has ", data.num_features(), " features and ", data.num_labels(),
                     " labels, fewer than the model was made for: it is other data"));
  }
  ASSIGN_OR_RETURN(grown.spec,
                   GrowLabels(model_.spec, std::max(model_.spec.num_labels(), data.num_labels())));
  if (embedding != nullptr) {
    const int64_t rows = data.num_features() + (embedding->bias_row ? 1 : 0);
    ASSIGN_OR_RETURN(grown.spec,
                     GrowTable(grown.spec, embedding->name, std::max(embedding->rows, rows)));
  }
  ASSIGN_OR_RETURN(std::vector<float> idf,
                   ComputeIdf(data, TrainingSplit::All(data.num_points()), parallelism_));
  grown.features = FeatureStats::FromDataset(data, std::move(idf));
  const size_t features = std::max(grown.features.idf.size(), model_.features.idf.size());
  grown.features.idf.resize(features, 0.0f);
  grown.features.names.resize(features);
  grown.labels = LabelNames(data, grown.spec.num_labels());
  if (!model_.labels.empty()) grown.labels.resize(static_cast<size_t>(grown.spec.num_labels()));
  grown.label_counts.of_label.resize(static_cast<size_t>(grown.spec.num_labels()));
  grown.vocabulary = model_.vocabulary;
  grown.origin = model_.origin;
  grown.run_record = model_.run_record;
  grown.tokenizer = input.tokenizer;
  ContinueTexts(model_, &grown);
  return grown;
}

absl::StatusOr<std::unique_ptr<Dataset>> ModelSession::TryToGrow(const ModelOptions& options,
                                                                 const std::string& path,
                                                                 CheckData check) {
  CoordinatorClient& coordinator = session_->client().coordinator();
  const bool of_cluster = !options.cluster.empty();
  if (of_cluster) {
    // Others may have named rows by now.
    ASSIGN_OR_RETURN(const ModelSpec now, session_->client().FindModel(model_.spec.name));
    StoredModel shared;
    shared.spec = now;
    ASSIGN_OR_RETURN(const bool fetched, FetchTexts(coordinator, &shared));
    components_.reset();
    if (fetched) model_ = std::move(shared);
    model_.spec = now;
  }
  DataOptions source;
  source.import = import_;
  source.import.continued = &model_;
  source.served = served_;
  ASSIGN_OR_RETURN(ImportedData input,
                   OpenTrainingData(path, "", source, parallelism_, /*quiet=*/true));
  ASSIGN_OR_RETURN(StoredModel grown, GrownFor(input));
  if (const std::string difference = TextsDiffer(model_, grown); !difference.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is of other data: ", difference));
  }
  RETURN_IF_ERROR(check(*input.data, grown));
  components_.reset();
  if (of_cluster) RETURN_IF_ERROR(CheckTexts(coordinator, grown));
  const std::unique_ptr<ProgressSink> progress = MakeProgress(/*quiet=*/false);
  RETURN_IF_ERROR(MakeModel(session_->client(), grown.spec, /*grow=*/true, *progress));
  if (of_cluster) RETURN_IF_ERROR(ShareTexts(coordinator, &grown));
  model_ = std::move(grown);
  if (directory_ != nullptr) RETURN_IF_ERROR(SaveModel(directory_->staging(), model_));
  RETURN_IF_ERROR(OpenChannels(options));
  return std::move(input.data);
}

absl::StatusOr<std::unique_ptr<Dataset>> ModelSession::GrowFor(const ModelOptions& options,
                                                               const std::string& path,
                                                               CheckData check) {
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<std::unique_ptr<Dataset>> data = TryToGrow(options, path, check);
    // Names that somebody else has given meanwhile have the numbers that these were to get.
    const bool numbered_here = ImportFormatOf(path).has_value();
    if (ReasonOf(data.status()) == reason::kAssetsDiffer && numbered_here &&
        attempt < kMostGrowAttempts) {
      continue;
    }
    return data;
  }
}

absl::Status ModelSession::KeepSpec(ModelSpec spec) {
  model_.spec = std::move(spec);
  return directory_ == nullptr ? absl::OkStatus() : SaveModel(directory_->staging(), model_);
}

absl::Status ModelSession::Close() {
  components_.reset();
  evaluator_.reset();
  reads_.clear();
  preparer_.reset();
  RETURN_IF_ERROR(session_->Close());
  return directory_ == nullptr ? absl::OkStatus() : directory_->Commit();
}
}  // namespace dslide::cli

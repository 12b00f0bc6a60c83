// dslide train

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/cluster/cluster_session.h"
#include "client/cli/cluster/table_growth.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/terminal.h"
#include "client/cli/console/train_job_status.h"
#include "client/cli/model/model_dir_writer.h"
#include "client/cli/model/text_assets.h"
#include "client/cli/report/run_record.h"
#include "client/cli/train/accuracy_report.h"
#include "client/cli/train/component_session.h"
#include "client/cli/train/data_source.h"
#include "client/cli/train/model_resume.h"
#include "client/cli/train/next_commands.h"
#include "client/cli/train/prediction_text.h"
#include "client/cli/train/spec_options.h"
#include "client/cli/train/step_fit.h"
#include "client/cli/train/train_result.h"
#include "client/trainer/round_trip_metrics.h"
#include "client/trainer/trainer.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/engine/data/file_output.h"
#include "core/net/http/admin_http.h"
#include "core/net/metrics/metrics.h"
#include "core/net/metrics/process_stats.h"
#include "core/spec/model_spec_json.h"

namespace dslide::cli {
namespace {

constexpr int64_t kRecallPoints = 2000;
constexpr char kExamplesText[] = R"(Examples:
  dslide train --data train.txt --eval test.txt --model-dir my-model
      In this process, with one embedded shard; the model is kept in my-model.
  dslide train --data train.txt --eval test.txt --model docs/models/citeulike-t.json -o json
      With a model spec; the last line of stdout is one JSON object.
  dslide train --data train.txt --cluster 127.0.0.1:7000 --job run-1
      On a cluster (see dslide up). Several trainers of one --job share the work.
  dslide train --data articles.csv --text-column title --label-column tags --label-separator ";"
      CSV and JSON lines are imported first; dslide data import keeps what it makes of them.
  dslide train --data s3://bucket/set/train.txt.gz --eval s3://bucket/set/test.txt.gz
      From an object store (s3, gs, http, https), or of a dslide data serve (grpc); docs/start/data.md.
  dslide train --text --data book.txt --dim 100
      From words to the words around them.)";

struct TrainOptions {
  std::string data;
  std::string eval;
  DataOptions source;
  SpecOptions spec;
  AccuracyOptions accuracy;
  std::string cluster;
  int64_t shards = 0;  // 0: EmbeddedShards()
  int64_t threads = 0;
  int64_t steps = 0;
  std::string job;
  std::string model_dir;
  bool overwrite = false;
  bool resume = false;
  std::string admin;
  std::string validation_group;
  std::string spec_out;
};

// One run of the command: what is opened first is used by what comes later.
class TrainRun {
 public:
  TrainRun(const Context& context, const TrainOptions& options)
      : global_(context.global),
        args_(context.args),
        options_(options),
        parallelism_(ThreadsOrAll(options.threads)),
        progress_(MakeTrainingProgress(context.global.quiet)) {}

  absl::StatusOr<int> Run() {
    RETURN_IF_ERROR(OpenDirectory());
    RETURN_IF_ERROR(OpenModel());
    RETURN_IF_ERROR(OpenTrainer());
    RETURN_IF_ERROR(Train());
    // What is trained is kept, also when it could not be measured.
    absl::Status measured = Measure();
    if (measured.ok()) measured = MakeExamples();
    RETURN_IF_ERROR(Keep());
    RETURN_IF_ERROR(measured);
    RETURN_IF_ERROR(PrintReport());
    return interrupted_ ? kExitInterrupted : kExitOk;
  }

 private:
  absl::Status OpenDirectory();
  absl::Status OpenModel();
  absl::Status OpenInput();
  absl::Status ResolveModel();
  absl::Status PrepareDirectory();
  absl::Status OpenCluster();
  absl::Status OpenTrainer();
  absl::Status Train();
  absl::Status RunJob();
  absl::StatusOr<std::vector<Prediction>> Rank(SparseBatch samples,
                                               absl::Span<const int64_t> points, int64_t k);
  absl::Status Measure();
  absl::Status MakeExamples();
  absl::Status Keep();
  absl::Status PrintReport() const;
  // Such a model takes no other's place.
  bool incomplete() const { return interrupted_ && HasComponents(model_.spec); }

  const GlobalOptions& global_;
  const std::vector<std::string>& args_;  // of the command line
  TrainOptions options_;
  const Parallelism parallelism_;
  const std::unique_ptr<ProgressSink> progress_;
  InterruptGuard interrupt_;
  std::unique_ptr<ModelDirWriter> directory_;  // null without --model-dir
  bool continues_job_ = false;                 // of --resume, with the settings of before
  KnownModels known_;
  std::unique_ptr<Dataset> data_;
  std::unique_ptr<Dataset> eval_;
  StoredModel model_;
  std::unique_ptr<TrainingSplit> split_;
  std::unique_ptr<Network> network_;
  Metrics metrics_;
  RoundTripMetrics round_trips_{metrics_};
  std::unique_ptr<ClusterSession> session_;
  std::unique_ptr<ComponentSession> components_;  // of a model with a memory; feeds the trainer
  std::unique_ptr<BatchPreparer> preparer_;
  std::unique_ptr<TrainerMetrics> trainer_metrics_;
  std::unique_ptr<AdminHttpServer> admin_;  // shows trainer_metrics_
  std::unique_ptr<Trainer> trainer_;
  TrainResult result_;
  RunRecord record_;  // for --model-dir
  std::string examples_;
  bool interrupted_ = false;
};

// Imported data takes the numbers that names have in the cluster. Where another training has named
// or added rows since they were read, it is imported anew: its own new names get the next numbers.
absl::Status TrainRun::OpenModel() {
  const bool numbered_here = options_.spec.grow && !options_.cluster.empty() &&
                             !options_.source.text && ImportFormatOf(options_.data).has_value();
  while (true) {
    absl::Status opened = OpenInput();
    if (opened.ok()) opened = ResolveModel();
    if (opened.ok()) opened = PrepareDirectory();
    if (opened.ok()) opened = OpenCluster();
    if (opened.ok() || !numbered_here) return opened;
    const auto now = FindInCluster(global_, options_.cluster, model_.spec.name);
    if (!now.ok() || !HasGrown(known_, *now, model_.spec.name)) return opened;
    progress_->Say("Another training has named new rows meanwhile: taking the next numbers");
  }
}

absl::Status TrainRun::OpenInput() {
  ASSIGN_OR_RETURN(const std::string name, ResolveName(options_.spec));
  ASSIGN_OR_RETURN(known_, options_.resume ? FindInDirectory(options_.model_dir)
                                           : FindInCluster(global_, options_.cluster, name));
  if (options_.shards == 0) options_.shards = EmbeddedShards(known_);
  ASSIGN_OR_RETURN(result_.cutoffs, CheckAccuracyOptions(options_.accuracy));
  DataOptions source = options_.source;
  ASSIGN_OR_RETURN(source.served, ServedDataOf(global_));
  if (known_.continued.has_value()) source.import.continued = &*known_.continued;
  ASSIGN_OR_RETURN(ImportedData input, OpenTrainingData(options_.data, options_.eval, source,
                                                        parallelism_, global_.quiet));
  data_ = std::move(input.data);
  eval_ = std::move(input.eval);
  model_.tokenizer = input.tokenizer;
  RETURN_IF_ERROR(CheckHasLabels(*data_));
  return eval_ == nullptr ? absl::OkStatus() : CheckHasLabels(*eval_);
}

absl::Status TrainRun::ResolveModel() {
  SpecOptions options = options_.spec;
  options.network = options_.source.text || options_.steps > 0;
  options.known = known_.specs;
  if (options_.resume) options.base = known_.continued->spec;
  std::string explanation;
  ASSIGN_OR_RETURN(ModelSpec spec, ResolveSpec(options, *data_, &explanation));
  if (!explanation.empty()) progress_->Say(explanation);
  if (!options.grow) RETURN_IF_ERROR(CheckFeatures(known_, spec, *data_));
  model_.vocabulary = VocabularyOf(*data_);
  RETURN_IF_ERROR(LeaveOutRetiredLabels(spec, data_, eval_));
  if (options_.cluster.empty()) {
    const bool asked = options_.spec.batch_size.has_value() || !options_.spec.model_file.empty() ||
                       options_.resume;
    RETURN_IF_ERROR(FitBatch(*data_, options_.shards, asked, spec, *progress_));
  }
  if (!HasComponents(spec) || spec.FindRole(TableRole::kHead) != nullptr) {
    ASSIGN_OR_RETURN(Network network, Network::Create(spec));
    network_ = std::make_unique<Network>(std::move(network));
  }
  if (!options_.spec_out.empty()) {
    ASSIGN_OR_RETURN(FileOutput file, FileOutput::Create(options_.spec_out));
    RETURN_IF_ERROR(file.Append(ModelSpecToJson(spec)));
    RETURN_IF_ERROR(file.Commit());
  }
  ASSIGN_OR_RETURN(const TrainingSplit split,
                   SplitPoints(options_.validation_group, data_->num_points(), spec));
  split_ = std::make_unique<TrainingSplit>(split);
  // Also without tf-idf: it orders the words by which people are shown a point.
  ASSIGN_OR_RETURN(std::vector<float> idf, ComputeIdf(*data_, *split_, parallelism_));
  model_.features = FeatureStats::FromDataset(*data_, std::move(idf));
  model_.labels = LabelNames(*data_, spec.num_labels());
  if (!options_.model_dir.empty() || !options_.cluster.empty() || eval_ != nullptr ||
      spec.training.propensity_strength > 0.0) {
    ASSIGN_OR_RETURN(model_.label_counts, CountLabels(*data_, parallelism_));
    model_.label_counts.of_label.resize(static_cast<size_t>(spec.num_labels()));
  }
  model_.origin =
      OriginOf(options_.source, options_.cluster.empty() ? options_.shards : 0, spec.seed);
  model_.spec = std::move(spec);
  return absl::OkStatus();
}

// Before all else: who writes the directory already is no surprise after an hour.
absl::Status TrainRun::OpenDirectory() {
  if (options_.model_dir.empty()) return absl::OkStatus();
  const ModelDirUse use = options_.resume      ? ModelDirUse::kContinue
                          : options_.overwrite ? ModelDirUse::kOverwrite
                                               : ModelDirUse::kNew;
  if (options_.resume) RETURN_IF_ERROR(ModelDirVersion(options_.model_dir).status());
  ASSIGN_OR_RETURN(directory_, ModelDirWriter::Open(options_.model_dir, use));
  return absl::OkStatus();
}

absl::Status TrainRun::PrepareDirectory() {
  if (directory_ == nullptr) return absl::OkStatus();
  record_ = BeginRunRecord({args_, options_.data, options_.eval}, *data_, *split_, parallelism_);
  model_.run_record = RunRecordToJson(record_);
  if (options_.resume) {
    RETURN_IF_ERROR(CheckResume(*known_.continued, options_.model_dir, model_));
    continues_job_ = known_.continued->spec == model_.spec;
    ContinueTexts(*known_.continued, &model_);
  }
  return SaveModel(directory_->staging(), model_);
}

absl::Status TrainRun::OpenCluster() {
  ClientOptions client;
  ASSIGN_OR_RETURN(client.timeout, global_.Timeout());
  client.job = options_.job.empty() ? absl::StrCat("train-", model_.spec.name) : options_.job;
  client.on_round_trip = [this](ShardId shard, absl::Duration took) {
    round_trips_.Observe(shard, took);
  };
  if (options_.cluster.empty()) {
    EmbeddedOptions embedded{.shards = options_.shards, .parallelism = parallelism_};
    if (directory_ != nullptr) embedded.data_dir = directory_->staging();
    if (options_.resume) embedded.rows_from = options_.model_dir;
    ASSIGN_OR_RETURN(session_, ClusterSession::StartEmbedded(embedded, std::move(client)));
  } else {
    ASSIGN_OR_RETURN(
        session_, ClusterSession::Connect(options_.cluster, global_.Channels(), std::move(client)));
    RETURN_IF_ERROR(
        FitBatch(*data_, session_->client().num_shards(), true, model_.spec, *progress_));
  }
  if (options_.resume) RETURN_IF_ERROR(PrepareJob(session_->client(), continues_job_));
  if (options_.spec.grow) RETURN_IF_ERROR(CheckTexts(session_->client().coordinator(), model_));
  RETURN_IF_ERROR(MakeModel(session_->client(), model_.spec, options_.spec.grow, *progress_));
  if (options_.cluster.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(ShareTexts(session_->client().coordinator(), &model_));
  if (directory_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(SaveModel(directory_->staging(), model_));
  // The rows are the cluster's: whatever comes of this trainer, it takes the names to ask for them.
  return directory_->Commit();
}

absl::Status TrainRun::OpenTrainer() {
  ClusterClient& cluster = session_->client();
  trainer_metrics_ = std::make_unique<TrainerMetrics>(metrics_, cluster.counters());
  if (!options_.admin.empty()) {
    metrics_.AddProcessMetrics();
    AdminHttpOptions admin{
        .address = options_.admin, .title = "dslide train", .metrics = {&metrics_}};
    admin.status = [this] { return trainer_metrics_->Page(); };
    ASSIGN_OR_RETURN(admin_, AdminHttpServer::Start(std::move(admin)));
    progress_->Say(absl::StrCat("Metrics: http://", admin_->address(), "/metrics"));
  }
  if (HasComponents(model_.spec)) {
    ASSIGN_OR_RETURN(components_, ComponentSession::Open(cluster, model_.spec, network_.get(),
                                                         model_.features.idf, parallelism_));
    const auto say = [this](const std::string& message) { progress_->Say(message); };
    RETURN_IF_ERROR(components_->OpenTraining(*data_, *split_, say, &InterruptGuard::Interrupted));
  }
  if (network_ != nullptr) {
    BatchPreparerOptions preparer{.seed = model_.spec.order_seed(), .idf = model_.features.idf};
    if (const double strength = model_.spec.training.propensity_strength; strength > 0.0) {
      preparer.label_weights =
          PropensityWeights(model_.label_counts.of_label, model_.label_counts.points,
                            options_.accuracy.propensity, strength);
    }
    if (components_ != nullptr) preparer.candidates = &components_->candidates();
    ASSIGN_OR_RETURN(preparer_, BatchPreparer::Open(cluster, *network_, std::move(preparer)));
  }
  TrainerOptions trainer{.seed = model_.spec.order_seed(),
                         .max_steps = options_.steps,
                         .parallelism = parallelism_,
                         .stop_requested = &InterruptGuard::Interrupted};
  ASSIGN_OR_RETURN(trainer_, Trainer::Create({.cluster = cluster,
                                              .spec = model_.spec,
                                              .network = network_.get(),
                                              .preparer = preparer_.get(),
                                              .stages = components_.get(),
                                              .data = *data_,
                                              .split = *split_,
                                              .progress = *progress_,
                                              .clock = SteadyClock(),
                                              .metrics = trainer_metrics_.get()},
                                             std::move(trainer)));
  return absl::OkStatus();
}

absl::Status TrainRun::RunJob() {
  const absl::StatusOr<TrainingReport> report = trainer_->Run();
  // A stage is given up at once.
  interrupted_ = absl::IsCancelled(report.status()) && InterruptGuard::Interrupted();
  if (!interrupted_) {
    RETURN_IF_ERROR(report.status());
    result_.report = *report;
    interrupted_ = report->interrupted;
  }
  if (components_ == nullptr) return absl::OkStatus();
  interrupted_ = interrupted_ || result_.report.stopped_at_step_limit;
  result_.components = interrupted_ ? std::optional(ComponentReport()) : components_->report();
  // Another trainer of the job has completed the model.
  if (!result_.components.has_value()) return components_->Load();
  if (network_ == nullptr) result_.report.samples = result_.components->points;
  return absl::OkStatus();
}

absl::Status TrainRun::Train() {
  progress_->Say(absl::StrFormat(
      "Training \"%s\": %s points, %s features, %s labels, %s%d shards, seed %d", model_.spec.name,
      WithThousands(split_->num_training()), WithThousands(data_->num_features()),
      WithThousands(data_->num_labels()),
      network_ == nullptr ? "" : WithThousands(network_->parameters()) + " parameters, ",
      session_->client().num_shards(), model_.spec.seed));
  RETURN_IF_ERROR(RunJob());
  if (interrupted_) {
    progress_->Say(components_ == nullptr
                       ? "Interrupted: finishing with what was trained until now."
                       : "Interrupted: the model is not complete; train it again.");
  } else if (components_ == nullptr && result_.report.steps == 0) {
    progress_->Say(absl::StrCat("Job \"", session_->client().options().job,
                                "\" had no work left: it is finished. Another run of it needs ",
                                "another name: --job NAME"));
  }
  result_.training_traffic = session_->client().counters().Total();
  result_.stages = session_->StageSeconds();
  AddTrainerStages(result_.report.stages, result_.stages);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Prediction>> TrainRun::Rank(SparseBatch samples,
                                                       absl::Span<const int64_t> points,
                                                       int64_t k) {
  if (components_ != nullptr) return components_->Rank(std::move(samples), k);
  ASSIGN_OR_RETURN(PreparedBatch batch,
                   preparer_->PrepareSamples(std::move(samples), BatchUse::kEvaluation, 0, points));
  return trainer_->evaluator().Predict(std::move(batch), k, /*hashed=*/false,
                                       (*trainer_->next_step())++);
}

absl::Status TrainRun::Measure() {
  if (network_ != nullptr) result_.dense_bytes_per_step = network_->dense_bytes_per_step();
  result_.seed = model_.spec.seed;
  result_.commit = Revision();
  if (!interrupted_ && eval_ != nullptr) {
    const LabelCounts& counts = model_.label_counts;
    const std::vector<float> inverse_propensities =
        InversePropensities(counts.of_label, counts.points, options_.accuracy.propensity);
    ASSIGN_OR_RETURN(result_.accuracy,
                     MeasureRanking(
                         *eval_, AllPoints(eval_->num_points()), ComponentSession::kBatch,
                         RankingMetrics(result_.cutoffs, inverse_propensities),
                         [this](SparseBatch samples, absl::Span<const int64_t> points, int64_t k) {
                           return Rank(std::move(samples), points, k);
                         },
                         nullptr));
    ASSIGN_OR_RETURN(result_.baseline, MostFrequentBaseline(counts, *eval_, parallelism_));
    if (components_ == nullptr) {
      const std::vector<int64_t> points = AllPoints(std::min(eval_->num_points(), kRecallPoints));
      ASSIGN_OR_RETURN(result_.recall,
                       trainer_->evaluator().MeasureRecall(*eval_, points, trainer_->next_step()));
    }
  }
  result_.traffic = session_->client().counters().Total();
  return absl::OkStatus();
}

// A few points of the evaluation data with what they really have, for people.
absl::Status TrainRun::MakeExamples() {
  if (interrupted_ || eval_ == nullptr || model_.labels.empty() || global_.json()) {
    return absl::OkStatus();
  }
  const std::vector<int64_t> points = ExamplePoints(eval_->num_points(), model_.spec.seed);
  SparseBatch samples;
  RETURN_IF_ERROR(eval_->ReadSamples(points, &samples));
  ASSIGN_OR_RETURN(const std::vector<Prediction> predictions, Rank(samples, points, 3));
  examples_ = ExamplesToText(model_, samples, predictions);
  return absl::OkStatus();
}

absl::Status TrainRun::Keep() {
  // In this order: the trainer's streams end before the servers that they lead to.
  trainer_.reset();
  components_.reset();
  admin_.reset();
  trainer_metrics_.reset();
  const bool keeps = session_->embedded() && directory_ != nullptr && !incomplete();
  if (keeps) {
    progress_->Say(absl::StrCat("Writing the model to ", options_.model_dir));
    record_.epochs = JobCurves(session_->client());
  }
  RETURN_IF_ERROR(session_->Close());
  result_.peak_rss_bytes = ProcessPeakResidentBytes();
  if (!keeps) return absl::OkStatus();
  record_.result = nlohmann::ordered_json::parse(TrainResultToJson(result_));
  RETURN_IF_ERROR(SaveRunRecord(directory_->staging(), RunRecordToJson(record_)));
  return directory_->Commit();
}

absl::Status TrainRun::PrintReport() const {
  if (global_.json()) {
    PrintLine(TrainResultToJson(result_));
    return absl::OkStatus();
  }
  PrintLine(TrainResultToText(result_));
  if (!examples_.empty()) {
    PrintLine(absl::StrCat("\nFive test points and their predictions:", examples_));
  }
  const TrainedFrom from = {options_.data, options_.eval, incomplete() ? "" : options_.model_dir,
                            options_.cluster, options_.shards};
  ASSIGN_OR_RETURN(const std::string next, NextCommands(from, model_, *data_));
  if (!next.empty()) PrintLine(next);
  return absl::OkStatus();
}

absl::Status CheckOptions(const TrainOptions& options) {
  if (options.overwrite && options.resume) {
    return absl::InvalidArgumentError("--overwrite and --resume exclude each other");
  }
  RETURN_IF_ERROR(CheckGrowthOptions(options.spec, !options.cluster.empty() || options.resume));
  if (options.resume && (options.model_dir.empty() || !options.cluster.empty())) {
    return absl::InvalidArgumentError(
        "--resume needs the --model-dir of an embedded run; a cluster keeps its models by itself");
  }
  return absl::OkStatus();
}

}  // namespace

void AddTrainCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand("train", "Train a model", kExamplesText);
  auto options = std::make_shared<TrainOptions>();  // shared with the callback
  AddOption(command, "--data", options->data,
            "Training data, file or URL: sparse, CSV, JSON lines, svmlight, --text; .gz .xz .zst")
      .Required();
  AddOption(command, "--eval", options->eval, "Test data, evaluated at the end");
  AddOption(command, "--model-dir", options->model_dir, "Directory that keeps the model");
  command.AddSwitch("--overwrite", options->overwrite, "Replace the model in --model-dir");
  command.AddSwitch("--resume", options->resume, "Train the model in --model-dir further");
  AddOption(command, "--cluster", options->cluster,
            "Coordinator HOST:PORT; without it a cluster is started in this process");
  AddOption(command, "--job", options->job,
            "Name of the training job; trainers of one job share its work");
  AddOption(command, "--shards", options->shards, "Shards of the embedded cluster")
      .Range(int64_t{1}, kMaxShards);
  AddThreads(command, options->threads, "Threads; 0: all of the machine");
  AddOption(command, "--steps", options->steps, "Stop after so many steps; 0: no limit")
      .Range(int64_t{0}, std::numeric_limits<int64_t>::max());
  AddOption(command, "--admin", options->admin, "HOST:PORT of a page with the trainer's metrics");
  AddOption(command, "--validation-group", options->validation_group,
            "File with a line for each point, its group: near-duplicates are held out together");
  AddOption(command, "--spec-out", options->spec_out,
            "File to write the model spec to, with everything that was chosen");
  AddAccuracyOptions(command, options->accuracy);
  AddDataOptions(command, options->source);
  AddImportedDataOptions(command, options->source);
  AddSpecOptions(command, options->spec);
  AddGrowthOptions(command, options->spec);
  command.OnChosen([&context, options] {
    context.run = [&context, options]() -> absl::StatusOr<int> {
      RETURN_IF_ERROR(CheckOptions(*options));
      return TrainRun(context, *options).Run();
    };
  });
}

}  // namespace dslide::cli

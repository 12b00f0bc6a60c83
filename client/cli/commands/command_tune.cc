// dslide tune

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/cluster/cluster_session.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/shell_word.h"
#include "client/cli/console/terminal.h"
#include "client/cli/train/data_source.h"
#include "client/cli/train/default_spec.h"
#include "client/cli/train/spec_options.h"
#include "client/cli/tune/search_space.h"
#include "client/cli/tune/successive_halving.h"
#include "client/cli/tune/trial_model.h"
#include "client/cli/tune/tune_result.h"
#include "client/cli/tune/tuning_split.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/engine/data/dataset_subset.h"
#include "core/engine/data/file_output.h"
#include "core/engine/data/group_split.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/engine/eval/propensity.h"
#include "core/spec/model_spec_json.h"

namespace dslide::cli {
namespace {

constexpr char kTuneExamples[] =
    R"(Tries the default model and variations of it: all on a ninth of the points, the best third of
them on a third, the best of these on all. What decides is how well they rank points that no
model was trained on. The test data is read once, at the end.

Examples:
  dslide tune --data train.txt --eval test.txt --minutes 30 --spec-out model.json
      As many variations as there is time for; then train the best with
      dslide train --data train.txt --model model.json
  dslide tune --data train.txt --trials 12 -o json
      The default and eleven others; the same result each time.
  dslide tune --data train.txt --validation-group groups.txt --minutes 30 --cluster 127.0.0.1:7000
      On a cluster (see dslide up); near-duplicates are held out together.)";

struct TuneOptions {
  std::string data;
  std::string eval;
  std::string validation_group;
  double minutes = 0;
  int64_t trials = 0;
  std::string spec_out;
  uint64_t seed = 1;
  std::string cluster;
  int64_t shards = EmbeddedOptions().shards;
  int64_t threads = 0;
};

// Of models and jobs: other searches may share the cluster.
std::string RunName() {
  const ClientId id = NewClientId();
  const absl::string_view bytes(reinterpret_cast<const char*>(id.data()), 6);
  return absl::StrCat("tune-", absl::BytesToHexString(bytes));
}

// Of the trainings: only what they note is for people, each note once.
class Notes : public ProgressSink {
 public:
  explicit Notes(ProgressSink& progress) : progress_(progress) {}
  void OnStep(const TrainingProgress&) override {}
  absl::Duration interval() const override { return absl::InfiniteDuration(); }
  void OnEvaluation(int64_t, double, bool) override {}
  void Say(const std::string& message) override {
    if (absl::StartsWith(message, "NOTE") && said_.insert(message).second) progress_.Say(message);
  }

 private:
  ProgressSink& progress_;
  absl::flat_hash_set<std::string> said_;
};

// One run of the command: what is opened first is used by what comes later.
class TuneRun {
 public:
  TuneRun(const GlobalOptions& global, const TuneOptions& options)
      : global_(global),
        options_(options),
        parallelism_(ThreadsOrAll(options.threads)),
        progress_(MakeProgress(global.quiet)),
        start_(SteadyClock().Now()),
        run_name_(RunName()) {}

  absl::StatusOr<int> Run() {
    RETURN_IF_ERROR(OpenInput());
    RETURN_IF_ERROR(OpenCluster());
    Search();
    if (result_.measured.empty()) return failure_;
    RETURN_IF_ERROR(Decide());
    RETURN_IF_ERROR(Test());
    return Finish();
  }

 private:
  absl::Status OpenInput();
  absl::Status OpenCluster();
  void Search();
  absl::Status Measure(const TrialAtRung& at);
  absl::StatusOr<std::unique_ptr<TrialModel>> Train(const std::string& name, ModelSpec spec,
                                                    const Dataset& data,
                                                    const TrainingSplit& split);
  absl::Status Decide();
  absl::Status Test();
  absl::StatusOr<int> Finish();
  absl::StatusOr<ModelSpec> Resolve(ModelSpec spec, const Dataset& data) const;
  absl::Duration Elapsed() const { return SteadyClock().Now() - start_; }
  bool TimeIsUp() const {
    return options_.minutes > 0 && Elapsed() >= absl::Minutes(options_.minutes);
  }

  const GlobalOptions& global_;
  const TuneOptions& options_;
  const Parallelism parallelism_;
  const std::unique_ptr<ProgressSink> progress_;
  Notes notes_{*progress_};
  const absl::Duration start_;
  const std::string run_name_;
  InterruptGuard interrupt_;

  std::optional<FileOutput> spec_file_;  // opened first: hours would be lost for a wrong name
  DataOptions source_;                   // of all data
  std::unique_ptr<Dataset> data_;
  LabelCounts counts_;
  std::vector<uint32_t> groups_;  // [points], or empty
  TuningSplit split_;
  std::optional<SearchSpace> space_;
  std::optional<SuccessiveHalving> halving_;
  std::unique_ptr<ClusterSession> session_;
  // Of each measurement, in the order of halving_->measured().
  std::vector<std::vector<double>> qualities_;
  absl::Status failure_;  // what ended the search before its time
  ModelSpec winner_;
  TuneResult result_;
};

absl::Status TuneRun::OpenInput() {
  if (!options_.spec_out.empty()) {
    ASSIGN_OR_RETURN(FileOutput file, FileOutput::Create(options_.spec_out));
    spec_file_.emplace(std::move(file));
  }
  ASSIGN_OR_RETURN(source_.served, ServedDataOf(global_));
  ASSIGN_OR_RETURN(data_, OpenData(options_.data, source_, nullptr, parallelism_));
  RETURN_IF_ERROR(CheckHasLabels(*data_));
  if (!options_.eval.empty()) {
    // Before hours of work; its points are read after them.
    ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> eval,
                     OpenData(options_.eval, source_, nullptr, parallelism_));
    RETURN_IF_ERROR(CheckSameShape(*data_, *eval));
    RETURN_IF_ERROR(CheckHasLabels(*eval));
  }
  if (!options_.validation_group.empty()) {
    ASSIGN_OR_RETURN(groups_, ReadGroups(options_.validation_group, data_->num_points()));
  }
  ASSIGN_OR_RETURN(counts_, CountLabels(*data_, parallelism_));
  ASSIGN_OR_RETURN(const DataShape shape, ShapeOf(*data_, counts_));
  ASSIGN_OR_RETURN(split_, SplitForTuning(data_->num_points(), groups_, options_.seed,
                                          DefaultComponents(shape).training));
  space_.emplace(shape);
  const auto training = static_cast<int64_t>(split_.training.size());
  const int64_t rungs = RungsFor(options_.trials, training);
  halving_.emplace(SuccessiveHalving::Options{.rungs = rungs, .trials = options_.trials});
  for (int64_t rung = 0; rung < rungs; ++rung) {
    result_.rung_points.push_back(PointsOfRung(training, rung, rungs));
  }
  result_.judged_points = static_cast<int64_t>(split_.judged.size());
  result_.fitted_points = static_cast<int64_t>(split_.fitted.size());
  result_.seed = options_.seed;
  result_.commit = Revision();
  return absl::OkStatus();
}

absl::Status TuneRun::OpenCluster() {
  ClientOptions client;
  ASSIGN_OR_RETURN(client.timeout, global_.Timeout());
  client.job = run_name_;
  if (!options_.cluster.empty()) {
    ASSIGN_OR_RETURN(
        session_, ClusterSession::Connect(options_.cluster, global_.Channels(), std::move(client)));
    return absl::OkStatus();
  }
  EmbeddedOptions embedded;
  embedded.shards = options_.shards;
  embedded.parallelism = parallelism_;
  ASSIGN_OR_RETURN(session_, ClusterSession::StartEmbedded(embedded, std::move(client)));
  return absl::OkStatus();
}

absl::StatusOr<ModelSpec> TuneRun::Resolve(ModelSpec spec, const Dataset& data) const {
  SpecOptions options;
  options.base = std::move(spec);
  options.seed = options_.seed;
  return ResolveSpec(options, data);
}

absl::StatusOr<std::unique_ptr<TrialModel>> TuneRun::Train(const std::string& name, ModelSpec spec,
                                                           const Dataset& data,
                                                           const TrainingSplit& split) {
  spec.name = absl::StrCat(run_name_, "-", name);
  ClientOptions client = session_->client().options();
  client.job = spec.name;
  ASSIGN_OR_RETURN(std::unique_ptr<ClusterClient> cluster, session_->OpenClient(std::move(client)));
  return TrialModel::Train({.cluster = std::move(cluster),
                            .spec = std::move(spec),
                            .data = data,
                            .split = split,
                            .progress = notes_,
                            .parallelism = parallelism_});
}

absl::Status TuneRun::Measure(const TrialAtRung& at) {
  const absl::Duration start = SteadyClock().Now();
  const TrialSettings settings = space_->Draw(options_.seed, at.trial);
  const std::vector<int64_t> points =
      split_.PointsWith(result_.rung_points[static_cast<size_t>(at.rung)]);
  const DatasetSubset data(*data_, points);
  const TrainingSplit split = split_.SplitOf(points);
  TrialResult measured{
      .trial = at.trial, .points = data.num_points(), .settings = space_->Differences(settings)};
  ASSIGN_OR_RETURN(ModelSpec spec, Resolve(space_->SpecOf(settings, data.num_points()), data));
  ASSIGN_OR_RETURN(const std::unique_ptr<TrialModel> model,
                   Train(absl::StrCat(at.trial, "-", at.rung), std::move(spec), data, split));
  ASSIGN_OR_RETURN(std::vector<double> qualities, model->Qualities(*data_, split_.judged));
  if (qualities.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options_.data, ": none of the ", split_.judged.size(),
        " points that were held out to judge by has a label: there is nothing to search for"));
  }
  for (const double quality : qualities) measured.quality += quality;
  measured.quality /= static_cast<double>(qualities.size());
  measured.seconds = absl::ToDoubleSeconds(SteadyClock().Now() - start);
  progress_->Say(absl::StrFormat("trial %d on %s points: %.4f in %.1f s, %s", at.trial,
                                 WithThousands(measured.points), measured.quality, measured.seconds,
                                 DescribeSettings(measured.settings)));
  halving_->Record(measured.quality);
  qualities_.push_back(std::move(qualities));
  result_.measured.push_back(std::move(measured));
  return absl::OkStatus();
}

void TuneRun::Search() {
  progress_->Say(
      absl::StrFormat("Searching: %s points to train on, %s to fit the fusion on, %s to judge by",
                      WithThousands(static_cast<int64_t>(split_.training.size())),
                      WithThousands(result_.fitted_points), WithThousands(result_.judged_points)));
  while (const std::optional<TrialAtRung> next = halving_->Next()) {
    // The first measurement is the default's: without it there is nothing to tell.
    if (!result_.measured.empty() && TimeIsUp()) break;
    failure_ = Measure(*next);
    if (!failure_.ok() || InterruptGuard::Interrupted()) break;
  }
  result_.interrupted = InterruptGuard::Interrupted();
  result_.left = halving_->Left();
}

absl::Status TuneRun::Decide() {
  const TrialAtRung leader = halving_->Leader();
  const std::vector<SuccessiveHalving::Measurement>& measured = halving_->measured();
  const auto at = [&](const TrialAtRung& wanted) {
    return static_cast<size_t>(
        std::find_if(measured.begin(), measured.end(),
                     [&](const auto& measurement) { return measurement.at == wanted; }) -
        measured.begin());
  };
  const size_t best = at(leader);
  result_.winner = result_.measured[best];
  CompareWithDefault(qualities_[best], qualities_[at({.trial = 0, .rung = leader.rung})], result_);
  const TrialSettings settings = space_->Draw(options_.seed, leader.trial);
  ASSIGN_OR_RETURN(winner_, Resolve(space_->SpecOf(settings, data_->num_points()), *data_));
  if (!spec_file_.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(spec_file_->Append(ModelSpecToJson(winner_)));
  return spec_file_->Commit();
}

absl::Status TuneRun::Test() {
  if (options_.eval.empty() || result_.interrupted || !failure_.ok()) return absl::OkStatus();
  progress_->Say("Training the best on all points");
  const TrainingSpec& training = winner_.training;
  ASSIGN_OR_RETURN(TrainingSplit split, TrainingSplit::Create(data_->num_points(), winner_.seed,
                                                              training.validation_fraction,
                                                              training.validation_max_samples));
  if (!groups_.empty()) {
    split = TrainingSplit::FromHeldOut(HoldOutGroups(
        groups_, winner_.seed, training.validation_fraction, training.validation_max_samples));
  }
  const absl::StatusOr<std::unique_ptr<TrialModel>> model = Train("winner", winner_, *data_, split);
  result_.interrupted = absl::IsCancelled(model.status()) && InterruptGuard::Interrupted();
  if (result_.interrupted) return absl::OkStatus();
  RETURN_IF_ERROR(model.status());
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> eval,
                   OpenData(options_.eval, source_, nullptr, parallelism_));
  const std::vector<float> inverse_propensities =
      InversePropensities(counts_.of_label, counts_.points, PropensityModel());
  ASSIGN_OR_RETURN(result_.accuracy,
                   (*model)->Measure(*eval, RankingMetrics({1, 3, 5}, inverse_propensities)));
  return absl::OkStatus();
}

absl::StatusOr<int> TuneRun::Finish() {
  absl::Status closed = session_->Close();
  if (failure_.ok()) failure_ = std::move(closed);
  result_.seconds = absl::ToDoubleSeconds(Elapsed());
  if (global_.json()) {
    PrintLine(TuneResultToJson(result_));
  } else {
    PrintLine(TuneResultToText(result_));
    if (!options_.spec_out.empty()) {
      PrintLine(absl::StrCat("\nIts spec is in ", options_.spec_out, ". Train with it:\n",
                             "  dslide train --data ", ShellWord(options_.data), " --model ",
                             ShellWord(options_.spec_out), " --model-dir my-model"));
    } else {
      PrintLine("\nThe spec was not kept; add --spec-out FILE to keep it.");
    }
  }
  if (result_.interrupted) return kExitInterrupted;
  // What is known is told; the search was not ended by its own limits all the same.
  RETURN_IF_ERROR(failure_);
  return kExitOk;
}

absl::Status CheckTuneOptions(const TuneOptions& options) {
  if (options.minutes == 0 && options.trials == 0) {
    return absl::InvalidArgumentError(
        "say how long to search: --minutes N, the time within which a trial may begin, or "
        "--trials N");
  }
  if (!(options.minutes >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--minutes ", options.minutes, ": must be above 0"));
  }
  if (options.trials != 0 && options.trials < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--trials ", options.trials, ": must be at least 2, the default and one beside it"));
  }
  if (options.shards < 1 || options.shards > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shards ", options.shards, ": must be in [1, ", kMaxShards, "]"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddTuneCommand(CliCommand app, Context& context) {
  const CliCommand command =
      app.AddSubcommand("tune", "Search for a model that suits the data best", kTuneExamples);
  auto options = std::make_shared<TuneOptions>();  // shared with the callback
  AddOption(command, "--data", options->data, "Training data: sparse text; .gz .xz .zst")
      .Required();
  AddOption(command, "--eval", options->eval,
            "Test data, evaluated once with the best model, trained on all points");
  AddOption(command, "--validation-group", options->validation_group,
            "File with a line for each point, its group: near-duplicates are held out together");
  AddOption(command, "--minutes", options->minutes,
            "No trial begins after so many minutes; 0: no limit");
  AddOption(command, "--trials", options->trials,
            "Models to try, the default included; 0: as many as there is time for");
  AddOption(command, "--spec-out", options->spec_out, "File to write the best model's spec to");
  AddOption(command, "--seed", options->seed,
            "Seed of the variations, of the points held out and of every training");
  AddOption(command, "--cluster", options->cluster,
            "Coordinator HOST:PORT; without it a cluster is started in this process");
  AddOption(command, "--shards", options->shards, "Shards of the embedded cluster");
  AddThreads(command, options->threads, "Threads; 0: all of the machine");
  command.OnChosen([&context, options] {
    context.run = [&context, options]() -> absl::StatusOr<int> {
      RETURN_IF_ERROR(CheckTuneOptions(*options));
      return TuneRun(context.global, *options).Run();
    };
  });
}

}  // namespace dslide::cli

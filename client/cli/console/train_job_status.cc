#include "client/cli/console/train_job_status.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/cli/console/terminal.h"
#include "client/cli/console/text_file.h"
#include "client/cpp/channel_factory.h"
#include "client/objects/object_transfer.h"
#include "core/system/log.h"

namespace dslide::cli {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(5);
constexpr absl::Duration kLeaving = absl::Seconds(5);
constexpr size_t kShownOfAnswer = 300;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Of "http://HOST:PORT/...": whether it stays here.
bool IsOfThisMachine(absl::string_view url) {
  if (!absl::ConsumePrefix(&url, "http://")) return false;
  return StaysOnThisMachine(url.substr(0, url.find('/')));
}

class TrainJobStatus final : public ProgressSink {
 public:
  TrainJobStatus(TrainJobAddress address, std::unique_ptr<ProgressSink> shown, const Clock& clock)
      : address_(std::move(address)),
        shown_(std::move(shown)),
        clock_(clock),
        transfer_([this] { return GivesUp(); }),
        thread_([this] { ReportLoop(); }) {}

  ~TrainJobStatus() override {
    {
      const absl::MutexLock lock(&mu_);
      ends_ = true;
      gives_up_ = clock_.Now() + kLeaving;
    }
    thread_.join();
  }

  absl::Duration interval() const override { return std::min(kInterval, shown_->interval()); }

  void OnStep(const TrainingProgress& progress) override {
    shown_->OnStep(progress);
    const absl::MutexLock lock(&mu_);
    progress_ = progress;
    const double done = Done();
    if (!began_) {
      began_ = true;
      begin_ = clock_.Now();
      done_at_begin_ = done;
    }
    has_news_ = true;
  }

  void OnEvaluation(int64_t epoch, double p_at_1, bool best) override {
    shown_->OnEvaluation(epoch, p_at_1, best);
    const absl::MutexLock lock(&mu_);
    progress_.epoch = epoch;
    progress_.epoch_samples_done = progress_.samples_per_epoch;
    p_at_1_ = p_at_1;
    has_news_ = true;
  }

  void OnFinished() override {
    shown_->OnFinished();
    const absl::MutexLock lock(&mu_);
    finished_ = true;
    has_news_ = true;
  }

  void Say(const std::string& message) override { shown_->Say(message); }

 private:
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return has_news_ || ends_; }

  // The share of all epochs, [0, 1]. Of a job of several trainers this one's part of an epoch is
  // less than all have done of it; each epoch's end makes up for that.
  double Done() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    if (progress_.max_epochs <= 0) return 0.0;
    const double epochs = static_cast<double>(progress_.epoch) + EpochPart(progress_);
    return std::min(1.0, epochs / static_cast<double>(progress_.max_epochs));
  }

  bool GivesUp() {
    const absl::MutexLock lock(&mu_);
    return ends_ && clock_.Now() >= gives_up_;
  }

  void ReportLoop() {
    for (;;) {
      std::string body;
      {
        const absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(this, &TrainJobStatus::HasWork));
        if (!has_news_) return;
        has_news_ = false;
        body = Body();
      }
      Report(std::move(body));
      const absl::MutexLock lock(&mu_);
      mu_.AwaitWithTimeout(absl::Condition(&ends_), kInterval);
    }
  }

  std::string Body() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    nlohmann::ordered_json status;
    const double done = finished_ ? 1.0 : Done();
    if (finished_ || began_) {
      // All of it only when there is nothing left to do.
      status["progressPercentage"] = finished_ ? 100 : std::min(99, static_cast<int>(100 * done));
    }
    if (finished_) {
      status["estimatedRemainingSeconds"] = 0;
    } else if (done > done_at_begin_) {
      const double took = absl::ToDoubleSeconds(clock_.Now() - begin_);
      const double left = took * (1.0 - done) / (done - done_at_begin_);
      status["estimatedRemainingSeconds"] = static_cast<int64_t>(
          std::min(left, static_cast<double>(std::numeric_limits<int32_t>::max())));
    }
    auto metrics = nlohmann::ordered_json::array();
    const auto add = [&metrics](const char* name, const std::string& value) {
      metrics.push_back({{"name", name}, {"value", value}});
    };
    if (began_ || p_at_1_.has_value()) add("epoch", absl::StrCat(progress_.epoch + 1));
    if (began_) {
      add("max_epochs", absl::StrCat(progress_.max_epochs));
      add("steps", absl::StrCat(progress_.steps));
      add("loss", absl::StrFormat("%.6g", progress_.recent_loss));
      add("samples_per_second", absl::StrFormat("%.6g", progress_.samples_per_second));
    }
    if (p_at_1_.has_value()) add("p_at_1", absl::StrFormat("%.6g", *p_at_1_));
    status["metrics"] = std::move(metrics);
    status["lastUpdatedTime"] =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
    return nlohmann::ordered_json{{"trainerStatus", std::move(status)}}.dump();
  }

  void Report(std::string body) {
    const absl::StatusOr<std::string> token = ReadTextFile(address_.token_file);
    if (!token.ok()) return Warn(token.status().message());
    TransferRequest request = {.url = address_.url};
    request.headers = {absl::StrCat("Authorization: Bearer ", absl::StripAsciiWhitespace(*token)),
                       "Content-Type: application/json"};
    request.post = std::move(body);
    request.ca_file = address_.ca_file;
    request.patience = kInterval;
    const TransferAnswer answer = transfer_.Perform(request);
    if (answer.code == 200) {
      warned_ = false;
      return;
    }
    Warn(answer.code == 0
             ? answer.failure
             : absl::StrCat("HTTP ", answer.code, ": ", EscapeForLog(answer.body, kShownOfAnswer)));
  }

  void Warn(absl::string_view why) {
    if (warned_) return;
    warned_ = true;
    LogWarning("the status of the TrainJob was not taken; training goes on",
               {{"url", address_.url}, {"why", why}});
  }

  const TrainJobAddress address_;
  const std::unique_ptr<ProgressSink> shown_;
  const Clock& clock_;
  bool warned_ = false;  // of the thread alone
  absl::Mutex mu_;
  TrainingProgress progress_ ABSL_GUARDED_BY(mu_);
  std::optional<double> p_at_1_ ABSL_GUARDED_BY(mu_);
  bool began_ ABSL_GUARDED_BY(mu_) = false;  // the two below are those of the first step
  absl::Duration begin_ ABSL_GUARDED_BY(mu_);
  double done_at_begin_ ABSL_GUARDED_BY(mu_) = 0.0;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool has_news_ ABSL_GUARDED_BY(mu_) = false;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration gives_up_ ABSL_GUARDED_BY(mu_);
  ObjectTransfer transfer_;  // of the thread alone
  std::thread thread_;       // the last: it uses all of the above
};

}  // namespace

absl::StatusOr<std::optional<TrainJobAddress>> TrainJobOfThisPod() {
  TrainJobAddress address = {.url = Variable("KUBEFLOW_TRAINER_STATUS_URL"),
                             .ca_file = Variable("KUBEFLOW_TRAINER_STATUS_CA_CERT"),
                             .token_file = Variable("KUBEFLOW_TRAINER_STATUS_TOKEN")};
  const std::string pod = Variable("JOB_COMPLETION_INDEX");
  if (address.url.empty() || (!pod.empty() && pod != "0")) return std::nullopt;
  if (!absl::StartsWith(address.url, "https://") && !IsOfThisMachine(address.url)) {
    return absl::InvalidArgumentError(
        absl::StrCat("KUBEFLOW_TRAINER_STATUS_URL is \"", EscapeForLog(address.url, 200),
                     "\": want https://, since a token is sent there"));
  }
  if (address.token_file.empty()) {
    return absl::InvalidArgumentError(
        "KUBEFLOW_TRAINER_STATUS_URL is set, KUBEFLOW_TRAINER_STATUS_TOKEN is not: it names the "
        "file of the token");
  }
  return address;
}

std::unique_ptr<ProgressSink> ReportToTrainJob(TrainJobAddress address,
                                               std::unique_ptr<ProgressSink> shown,
                                               const Clock& clock) {
  return std::make_unique<TrainJobStatus>(std::move(address), std::move(shown), clock);
}

std::unique_ptr<ProgressSink> MakeTrainingProgress(bool quiet) {
  std::unique_ptr<ProgressSink> shown = MakeProgress(quiet);
  absl::StatusOr<std::optional<TrainJobAddress>> address = TrainJobOfThisPod();
  if (!address.ok()) {
    LogWarning("progress is not reported; training goes on", {{"why", address.status().message()}});
    return shown;
  }
  if (!address->has_value()) return shown;
  return ReportToTrainJob(**std::move(address), std::move(shown), SteadyClock());
}

}  // namespace dslide::cli

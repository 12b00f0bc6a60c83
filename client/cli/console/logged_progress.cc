#include "client/cli/console/logged_progress.h"

#include <string>

#include "absl/time/time.h"
#include "core/system/log.h"

namespace dslide::cli {
namespace {

class Logged final : public ProgressSink {
 public:
  explicit Logged(const Clock& clock) : clock_(clock) {}

  absl::Duration interval() const override { return absl::Seconds(5); }

  void OnStep(const TrainingProgress& progress) override {
    const absl::Duration now = clock_.Now();
    if (now - last_ < interval()) return;
    last_ = now;
    WriteLog(LogLevel::kInfo, "training",
             {{"epoch", progress.epoch + 1},
              {"max_epochs", progress.max_epochs},
              {"steps", progress.steps},
              {"loss", progress.recent_loss},
              {"samples_per_second", progress.samples_per_second}});
  }

  void OnEvaluation(int64_t epoch, double p_at_1, bool best) override {
    WriteLog(LogLevel::kInfo, "evaluated",
             {{"epoch", epoch + 1}, {"p_at_1", p_at_1}, {"best", best ? "true" : "false"}});
  }

  void Say(const std::string& message) override { WriteLog(LogLevel::kInfo, message); }

 private:
  const Clock& clock_;
  absl::Duration last_ = -absl::InfiniteDuration();
};

}  // namespace

std::unique_ptr<ProgressSink> LoggedProgress(const Clock& clock) {
  return std::make_unique<Logged>(clock);
}

}  // namespace dslide::cli

#include "client/trainer/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dslide {
namespace {

constexpr int kBarCells = 20;

class Quiet final : public ProgressSink {
 public:
  void OnStep(const TrainingProgress&) override {}
  absl::Duration interval() const override { return absl::Seconds(1); }
  void OnEvaluation(int64_t, double, bool) override {}
  void Say(const std::string&) override {}
};

class Stderr final : public ProgressSink {
 public:
  Stderr(const TerminalProgressOptions& options, const Clock& clock)
      : options_(options), clock_(clock), last_(-absl::InfiniteDuration()) {}
  ~Stderr() override { EndLine(); }

  absl::Duration interval() const override {
    return options_.live ? absl::Milliseconds(250) : absl::Seconds(5);
  }

  void OnStep(const TrainingProgress& progress) override {
    const absl::Duration now = clock_.Now();
    if (now - last_ < interval()) return;
    last_ = now;
    if (!options_.live) {
      std::fprintf(stderr, "%s\n", FormatProgress(progress).c_str());
      return;
    }
    const int filled = static_cast<int>(EpochPart(progress) * kBarCells);
    std::string bar = "[";
    for (int i = 0; i < kBarCells; ++i) bar += i < filled ? '#' : '.';
    std::string line = absl::StrCat(bar, "] ", FormatProgress(progress));
    if (static_cast<int>(line.size()) >= options_.width) {
      line.resize(static_cast<size_t>(std::max(1, options_.width - 1)));
    }
    std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
    std::fflush(stderr);
    open_line_ = true;
  }

  void OnEvaluation(int64_t epoch, double p_at_1, bool best) override {
    EndLine();
    const char* mark = !best            ? ""
                       : options_.color ? "  \x1b[32m(best so far)\x1b[0m"
                                        : "  (best so far)";
    std::fprintf(stderr, "epoch %lld: P@1 %.4f on the held-out points%s\n",
                 static_cast<long long>(epoch) + 1, p_at_1, mark);
  }

  void Say(const std::string& message) override {
    EndLine();
    std::fprintf(stderr, "%s\n", message.c_str());
  }

 private:
  void EndLine() {
    if (open_line_) std::fprintf(stderr, "\n");
    open_line_ = false;
  }

  const TerminalProgressOptions options_;
  const Clock& clock_;
  absl::Duration last_;
  bool open_line_ = false;
};

}  // namespace

std::unique_ptr<ProgressSink> QuietProgress() { return std::make_unique<Quiet>(); }

std::unique_ptr<ProgressSink> StderrProgress(const TerminalProgressOptions& options,
                                             const Clock& clock) {
  return std::make_unique<Stderr>(options, clock);
}

double EpochPart(const TrainingProgress& progress) {
  if (progress.samples_per_epoch <= 0) return 0;
  return std::clamp(static_cast<double>(progress.epoch_samples_done) /
                        static_cast<double>(progress.samples_per_epoch),
                    0.0, 1.0);
}

std::string FormatElapsed(absl::Duration duration) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(duration));
  if (seconds >= 3600) {
    return absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  }
  return absl::StrFormat("%d:%02d", seconds / 60, seconds % 60);
}

std::string FormatProgress(const TrainingProgress& progress) {
  std::string text = absl::StrFormat(
      "epoch %d/%d %3.0f%%  loss %.3f  %.0f samples/s", progress.epoch + 1, progress.max_epochs,
      100 * EpochPart(progress), progress.recent_loss, progress.samples_per_second);
  if (progress.samples_per_second > 0) {
    const double left =
        (static_cast<double>(progress.max_epochs - progress.epoch) - EpochPart(progress)) *
        static_cast<double>(progress.samples_per_epoch) / progress.samples_per_second;
    absl::StrAppend(&text, "  ETA ", FormatElapsed(absl::Seconds(left)));
  }
  absl::StrAppendFormat(&text, "  active %.0f", progress.active_rows_per_sample);
  if (progress.recall.samples > 0) {
    absl::StrAppendFormat(&text, "  recall %.2f",
                          static_cast<double>(progress.recall.top_10_found) /
                              static_cast<double>(std::max<int64_t>(1, progress.recall.top_10)));
  }
  return text;
}

}  // namespace dslide

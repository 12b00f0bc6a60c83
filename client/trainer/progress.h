// How training tells a person where it is.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/trainer/softmax_combine.h"
#include "core/base/clock.h"

namespace dslide {

struct TrainingProgress {
  int64_t epoch = 0;  // from 0
  int64_t max_epochs = 0;
  int64_t epoch_samples_done = 0;  // of this trainer, in this epoch
  int64_t samples_per_epoch = 0;   // over all trainers
  int64_t steps = 0;
  double recent_loss = 0;         // mean over the samples of the last report's interval
  double samples_per_second = 0;  // over the same
  double active_rows_per_sample = 0;
  double distinct_rows_per_batch = 0;
  RecallCount recall;  // over the same; may be empty
};

// How much of its epoch this trainer has done, of what all do, [0, 1].
double EpochPart(const TrainingProgress& progress);

// Called from the trainer's thread.
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;

  // After every step; implementations decide how often they show it.
  virtual void OnStep(const TrainingProgress& progress) = 0;
  // How often OnStep's figures are collected anew.
  virtual absl::Duration interval() const = 0;
  virtual void OnEvaluation(int64_t epoch, double p_at_1, bool best) = 0;
  // The job has no work left, and was not interrupted.
  virtual void OnFinished() {}
  // One line, e.g. a warning.
  virtual void Say(const std::string& message) = 0;
};

// Ignores everything.
std::unique_ptr<ProgressSink> QuietProgress();

struct TerminalProgressOptions {
  // Draw one line again and again, with a bar; else whole lines every few seconds.
  bool live = false;
  bool color = false;
  int width = 80;
};

// Writes to stderr.
std::unique_ptr<ProgressSink> StderrProgress(const TerminalProgressOptions& options,
                                             const Clock& clock);

// The text of one report, without colour: "epoch 3/10  41%  loss 4.21  9800 samples/s  ETA 0:42
// ...".
std::string FormatProgress(const TrainingProgress& progress);

// "0:07", "12:34", "3:02:01".
std::string FormatElapsed(absl::Duration duration);

}  // namespace dslide

// Progress of a training as the status of a TrainJob of Kubeflow Trainer, which its pods report:
// https://github.com/kubeflow/trainer/tree/master/docs/proposals/2779-trainjob-progress

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/trainer/progress.h"
#include "core/base/clock.h"

namespace dslide::cli {

// Where the status goes.
struct TrainJobAddress {
  std::string url;
  std::string ca_file;     // of trusted authorities; "": the system's
  std::string token_file;  // read for each report, since tokens are renewed
};

// What the controller gives its pods in KUBEFLOW_TRAINER_STATUS_URL, _CA_CERT and _TOKEN. Empty
// outside of a TrainJob, and in all pods but the first: they would say the same. InvalidArgument
// for a URL over which a token would travel in plaintext, and for one without a token.
absl::StatusOr<std::optional<TrainJobAddress>> TrainJobOfThisPod();

// What `shown` shows is reported, too: every five seconds at most, from a thread of its own.
// Training never waits for it; the end waits at most five seconds. A report that is refused is
// warned of once, until one is taken. `clock` outlives the result.
std::unique_ptr<ProgressSink> ReportToTrainJob(TrainJobAddress address,
                                               std::unique_ptr<ProgressSink> shown,
                                               const Clock& clock);

// MakeProgress(), reported where this is a pod of a TrainJob.
std::unique_ptr<ProgressSink> MakeTrainingProgress(bool quiet);

}  // namespace dslide::cli

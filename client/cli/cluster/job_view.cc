#include "client/cli/cluster/job_view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/console/terminal.h"

namespace dslide::cli {

nlohmann::ordered_json JobToJson(const JobStatus& job) {
  return {{"job", job.job},
          {"model", job.model},
          {"epoch", job.epoch},
          {"max_epochs", job.max_epochs},
          {"samples_done", job.samples_done},
          {"samples_per_epoch", job.samples_per_epoch},
          {"trainers", job.trainers},
          {"finished", job.finished},
          {"cancelled", job.cancelled},
          {"best_epoch", job.best_epoch},
          {"best_metric", job.best_metric}};
}

std::string JobsTable(absl::Span<const JobStatus> jobs) {
  std::vector<std::vector<std::string>> rows;
  for (const JobStatus& job : jobs) {
    rows.push_back({job.job, job.model, job.state(),
                    absl::StrFormat("%s/%s", WithThousands(job.samples_done),
                                    WithThousands(job.samples_per_epoch)),
                    absl::StrCat(job.trainers),
                    job.best_epoch < 0
                        ? std::string("none yet")
                        : absl::StrFormat("%.4f (epoch %d)", job.best_metric, job.best_epoch + 1)});
  }
  return FormatTable({"job", "model", "state", "samples", "trainers", "best P@1"}, rows);
}

}  // namespace dslide::cli

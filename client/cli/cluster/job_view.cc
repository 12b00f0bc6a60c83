#include "client/cli/cluster/job_view.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/cli/console/terminal.h"
#include "core/spec/json_archive.h"

namespace dslide::cli {

namespace {

std::optional<double> SecondsOf(const std::optional<absl::Duration>& duration) {
  if (!duration.has_value()) return std::nullopt;
  return absl::ToDoubleSeconds(*duration);
}

std::string Pace(const JobStatus& job) {
  if (job.finished || job.samples_per_second <= 0) return "-";
  return absl::StrFormat("%s/s", WithThousands(std::llround(job.samples_per_second)));
}

std::string TimeLeft(const JobStatus& job) {
  const auto left = job.time_left();
  if (job.finished || !left.has_value()) return "-";
  return absl::FormatDuration(absl::Ceil(*left, absl::Seconds(1)));
}

}  // namespace

nlohmann::ordered_json EpochsToJson(absl::Span<const EpochResult> epochs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const EpochResult& result : epochs) {
    json.push_back({{"epoch", result.epoch},
                    {"loss", NumberOrNull(result.loss)},
                    {"metric", NumberOrNull(result.metric)},
                    {"samples_per_second", NumberOrNull(result.samples_per_second)}});
  }
  return json;
}

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
          {"best_metric", job.best_metric},
          {"loss", NumberOrNull(job.loss)},
          {"samples_per_second", job.samples_per_second},
          {"seconds_left", NumberOrNull(SecondsOf(job.time_left()))},
          {"epochs", EpochsToJson(job.epochs)}};
}

std::string JobsTable(absl::Span<const JobStatus> jobs) {
  std::vector<std::vector<std::string>> rows;
  for (const JobStatus& job : jobs) {
    rows.push_back({job.job, job.model, job.state(),
                    absl::StrFormat("%s/%s", WithThousands(job.samples_done),
                                    WithThousands(job.samples_per_epoch)),
                    absl::StrCat(job.trainers), Pace(job), TimeLeft(job),
                    job.best_epoch < 0
                        ? std::string("none yet")
                        : absl::StrFormat("%.4f (epoch %d)", job.best_metric, job.best_epoch + 1)});
  }
  return FormatTable(
      {"job", "model", "state", "samples", "trainers", "pace", "time left", "best P@1"}, rows);
}

}  // namespace dslide::cli

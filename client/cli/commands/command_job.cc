// dslide job

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/cli/cluster/connect.h"
#include "client/cli/cluster/job_view.h"
#include "client/cli/commands/cluster_action.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cpp/coordinator_client.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

// Flags of the whole group.
struct JobOptions {
  std::string cluster = "127.0.0.1:7000";
  std::string job;
  bool yes = false;
  bool dry_run = false;
};

absl::StatusOr<JobStatus> FindJob(CoordinatorClient& client, const std::string& name) {
  ASSIGN_OR_RETURN(const ClusterStatus status, client.GetClusterStatus());
  const auto found = std::find_if(status.jobs.begin(), status.jobs.end(),
                                  [&](const JobStatus& job) { return job.job == name; });
  if (found != status.jobs.end()) return *found;
  return absl::NotFoundError(absl::StrCat("there is no job \"", name, "\": dslide job list"));
}

void PrintJob(const GlobalOptions& global, const JobStatus& job, absl::string_view note) {
  if (global.json()) {
    PrintLine(JobToJson(job).dump());
    return;
  }
  if (!note.empty()) PrintNote(note);
  PrintLine(JobsTable({&job, 1}));
}

absl::StatusOr<int> ListJobs(const GlobalOptions& global, const JobOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const ClusterStatus status, client->GetClusterStatus());
  if (global.json()) {
    nlohmann::ordered_json json = {{"jobs", nlohmann::ordered_json::array()}};
    for (const JobStatus& job : status.jobs) json["jobs"].push_back(JobToJson(job));
    PrintLine(json.dump());
  } else if (status.jobs.empty()) {
    PrintLine("There is no job: dslide train --cluster begins one.");
  } else {
    PrintLine(JobsTable(status.jobs));
  }
  return kExitOk;
}

absl::StatusOr<int> DescribeJob(const GlobalOptions& global, const JobOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const JobStatus job, FindJob(*client, options.job));
  PrintJob(global, job, "");
  return kExitOk;
}

// Shows the job instead with --dry-run; refuses without --yes.
absl::StatusOr<bool> Confirmed(const GlobalOptions& global, CoordinatorClient& client,
                               const JobOptions& options, absl::string_view what) {
  if (options.dry_run) {
    ASSIGN_OR_RETURN(const JobStatus job, FindJob(client, options.job));
    PrintJob(global, job, absl::StrCat("This job would ", what, ":"));
    return false;
  }
  if (options.yes) return true;
  return absl::InvalidArgumentError(absl::StrCat("job ", options.job, " would ", what,
                                                 ": add --yes, or --dry-run to see it first"));
}

absl::StatusOr<int> CancelJob(const GlobalOptions& global, const JobOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(
      const bool confirmed,
      Confirmed(global, *client, options, "end, and what it has trained would stay in the model"));
  if (!confirmed) return kExitOk;
  ASSIGN_OR_RETURN(const JobStatus job, client->CancelJob(options.job));
  PrintJob(global, job,
           job.cancelled ? "Its trainers end with the steps that they have begun."
                         : "It had finished before.");
  return kExitOk;
}

absl::StatusOr<int> DeleteJob(const GlobalOptions& global, const JobOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(
      const bool confirmed,
      Confirmed(global, *client, options,
                "be forgotten, and one of that name would begin with its first epoch"));
  if (!confirmed) return kExitOk;
  RETURN_IF_ERROR(client->DeleteJob(options.job));
  PrintLine(global.json()
                ? nlohmann::ordered_json{{"job", options.job}, {"deleted", true}}.dump()
                : absl::StrCat("Job ", options.job, " is forgotten; its model stays as it is."));
  return kExitOk;
}

}  // namespace

void AddJobCommand(CliCommand app, Context& context) {
  const CliCommand group = app.AddSubcommand("job", "Show, cancel and forget training jobs",
                                             "Examples:\n"
                                             "  dslide job list\n"
                                             "  dslide job describe train -o json\n"
                                             "  dslide job cancel train --yes");
  group.RequireSubcommand();
  const auto options = std::make_shared<JobOptions>();  // shared with the callbacks
  const auto add = [&](const char* name, const char* help, const std::string& examples,
                       ClusterAction<JobOptions> action) {
    const CliCommand command =
        AddClusterAction(group, context, options, name, help, examples, action);
    command.Add("JOB", options->job, "Its name").Required();
    return command;
  };
  AddClusterAction(group, context, options, "list", "List the jobs of a cluster",
                   "  dslide job list --cluster 127.0.0.1:7000 -o json", ListJobs);
  add("describe", "Show one job", "  dslide job describe train", DescribeJob);
  const CliCommand cancel =
      add("cancel", "End a job: its trainers end well, and what was trained stays",
          "  dslide job cancel train --dry-run\n  dslide job cancel train --yes", CancelJob);
  cancel.AddSwitch("--yes", options->yes, "Do it");
  cancel.AddSwitch("--dry-run", options->dry_run, "Show the job and change nothing");
  const CliCommand forget =
      add("delete", "Forget a job that has ended, so that one of its name begins anew",
          "  dslide job delete train --yes", DeleteJob);
  forget.AddSwitch("--yes", options->yes, "Do it");
  forget.AddSwitch("--dry-run", options->dry_run, "Show the job and change nothing");
}

}  // namespace dslide::cli

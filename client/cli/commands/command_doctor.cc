// dslide doctor

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/cluster/checkpoint_copy.h"
#include "client/cli/cluster/cluster_examination.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/model/model_dir.h"
#include "client/cli/model/model_files.h"
#include "client/cpp/coordinator_client.h"
#include "client/cpp/shard_client.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/engine/data/file_output.h"
#include "core/net/http/http_client.h"
#include "services/inspect/directory_examination.h"

namespace dslide::cli {
namespace {

namespace fs = std::filesystem;

struct DoctorOptions {
  std::string cluster = "127.0.0.1:7000";
  std::string data_dir;
  std::vector<std::string> admin;
};

// --- A directory ---------------------------------------------------------------------------------

bool HoldsCopies(const std::string& path) { return OpenCopy(path, 0).ok(); }

void ExamineCopies(const std::string& path, Findings& findings) {
  const absl::StatusOr<CheckpointCopy> copy = OpenCopy(path, 0);
  if (!copy.ok()) return findings.Error(path, copy.status(), "make another copy");
  const absl::StatusOr<CopySize> size = VerifyCopy(*copy);
  if (!size.ok()) {
    findings.Error(copy->path, size.status(), "make another copy: dslide checkpoint copy --to DIR");
  } else {
    findings.Ok(copy->path, absl::StrCat("a whole copy of cluster checkpoint ", copy->checkpoint_id,
                                         ": ", size->files, " files"));
  }
}

void ExamineModelTexts(const std::string& path, Findings& findings) {
  const absl::StatusOr<bool> sealed = CheckModelFiles(path);
  if (!sealed.ok()) {
    findings.Error(path, sealed.status(),
                   RemedyFor(sealed.status(),
                             "restore the texts from a copy, or train again with --overwrite"));
    return;
  }
  if (*sealed) {
    findings.Ok(path, "the model's texts are as they were written");
  } else {
    findings.Warn(path, "the model's texts have no list (FILES): damage would not be noticed",
                  "dslide train --resume writes one");
  }
  const absl::StatusOr<StoredModel> model = LoadModel(path);
  if (!model.ok()) {
    return findings.Error(path, model.status(),
                          RemedyFor(model.status(), "train again with --overwrite"));
  }
  if (model->origin.shards < 1) return;  // the rows are in a cluster
  if (const absl::Status rows = CheckRowsKept(path, *model); !rows.ok()) {
    findings.Error(
        path, rows,
        RemedyFor(rows, "put the rows back from a copy, or train again with --overwrite"));
  }
}

void ExamineModel(const std::string& path, Findings& findings) {
  ExamineModelTexts(path, findings);
  std::vector<std::string> directories;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.is_directory(error)) directories.push_back(entry.path().string());
  }
  std::sort(directories.begin(), directories.end());
  for (const std::string& directory : directories) {
    const std::string name = fs::path(directory).filename().string();
    if (absl::StartsWith(name, "shard-")) {
      findings.Append(ExamineShardDirectory(directory));
    } else if (name == "coordinator") {
      findings.Append(ExamineCoordinatorDirectory(directory));
    }
  }
}

absl::StatusOr<Findings> ExamineDirectory(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (error == std::errc::permission_denied) {
      return LocalFileError("read --data-dir", path, error.value());
    }
    return absl::NotFoundError(absl::StrCat("--data-dir ", path, ": is no directory"));
  }
  Findings findings;
  const absl::StatusOr<std::string> model = ModelDirVersion(path);
  if (absl::IsPermissionDenied(model.status())) return model.status();
  if (model.ok()) {
    ExamineModel(path, findings);
  } else if (KindOfDirectory(path) == DirectoryKind::kShard) {
    findings = ExamineShardDirectory(path);
  } else if (KindOfDirectory(path) == DirectoryKind::kCoordinator) {
    findings = ExamineCoordinatorDirectory(path);
  } else if (HoldsCopies(path)) {
    ExamineCopies(path, findings);
  } else {
    return absl::NotFoundError(absl::StrCat(
        "--data-dir ", path,
        ": holds nothing of a shard, a coordinator, a model or copies of checkpoints; name one of "
        "these"));
  }
  return findings;
}

// --- A cluster -----------------------------------------------------------------------------------

void ExaminePages(const std::vector<std::string>& pages, absl::Duration timeout,
                  Findings& findings) {
  for (const std::string& address : pages) {
    const absl::StatusOr<HttpAnswer> answer = HttpGetPage(address, "/metrics", timeout);
    if (!answer.ok()) {
      JudgeFailure(address, answer.status(), findings);
      continue;
    }
    const absl::StatusOr<MetricsText> page = MetricsText::Parse(answer->body);
    if (!page.ok()) {
      findings.Error(address, page.status(), "name the admin page of a dslide process");
      continue;
    }
    const size_t before = findings.all().size();
    JudgePage(address, *page, absl::Now(), findings);
    if (findings.all().size() == before) findings.Ok(address, "its numbers show no trouble");
  }
}

absl::StatusOr<Findings> ExamineCluster(const GlobalOptions& global, const DoctorOptions& options) {
  Findings findings;
  ClientOptions client;
  ASSIGN_OR_RETURN(client.timeout, global.Timeout());
  if (global.tls.has_identity()) {
    ASSIGN_OR_RETURN(const TlsMaterial mine, LoadTlsMaterial(global.tls));
    JudgeExpiry(global.tls.cert, mine.expires, absl::Now(), findings);
  }
  const ChannelFactory channels = NetworkChannels(global.Channels());
  ASSIGN_OR_RETURN(auto channel, channels(options.cluster));
  CoordinatorClient coordinator(channel, options.cluster, client, nullptr);
  const std::string where = absl::StrCat("coordinator at ", options.cluster);
  const absl::StatusOr<ClusterStatus> status = coordinator.GetClusterStatus();
  if (status.ok()) {
    JudgeStatus(where, *status, {Version(), Revision()}, findings);
    for (const ShardInfo& shard : status->shards) {
      if (shard.health != ShardHealth::kAlive) continue;
      ASSIGN_OR_RETURN(auto shard_channel, channels(shard.address));
      ShardClient asked(std::move(shard_channel), shard.shard, shard.address, client, nullptr);
      JudgeShard(shard, asked.GetServerInfo(), *status, findings);
    }
    JudgeCheckpoints(where, *status, coordinator.ListClusterCheckpoints(), findings);
  } else {
    JudgeFailure(where, status.status(), findings);
  }
  ExaminePages(options.admin, client.timeout, findings);
  return findings;
}

// --- Results -------------------------------------------------------------------------------------

int ExitCodeOf(const Findings& findings, bool of_cluster) {
  if (findings.worst() < Severity::kWarning) return kExitOk;
  int code = kExitFailure;
  for (const Finding& finding : findings.all()) {
    if (finding.severity != Severity::kError) continue;
    const int own = cli::ExitCodeOf(absl::Status(finding.code, ""));
    // Lost state is graver than a silent process, and that than the rest.
    if (own == kExitDataLoss) return own;
    if (own == kExitUnreachable && of_cluster) code = own;
    if (own == kExitDiskFull) code = own;
  }
  return code;
}

std::vector<Finding> GravestFirst(const Findings& findings) {
  std::vector<Finding> sorted = findings.all();
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return sorted;
}

void PrintFindingsJson(const Findings& findings) {
  nlohmann::ordered_json json;
  json["worst"] = SeverityName(findings.worst());
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& finding : GravestFirst(findings)) {
    json["findings"].push_back({{"severity", SeverityName(finding.severity)},
                                {"where", finding.where},
                                {"what", finding.what},
                                {"remedy", finding.remedy}});
  }
  PrintLine(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void PrintFindings(const Findings& findings) {
  for (const Finding& finding : GravestFirst(findings)) {
    PrintLine(
        absl::StrCat(SeverityName(finding.severity), ": ", finding.where, ": ", finding.what));
    if (!finding.remedy.empty()) PrintLine(absl::StrCat("    ", finding.remedy));
  }
}

absl::StatusOr<int> RunDoctor(const GlobalOptions& global, const DoctorOptions& options) {
  ASSIGN_OR_RETURN(const Findings findings, options.data_dir.empty()
                                                ? ExamineCluster(global, options)
                                                : ExamineDirectory(options.data_dir));
  global.json() ? PrintFindingsJson(findings) : PrintFindings(findings);
  return ExitCodeOf(findings, options.data_dir.empty());
}

}  // namespace

void AddDoctorCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "doctor", "Say what is wrong with a cluster, or with a data directory, and what to do",
      "Examples:\n"
      "  dslide doctor --cluster 127.0.0.1:7000\n"
      "  dslide doctor --admin 127.0.0.1:7001,127.0.0.1:7011\n"
      "      Also what those admin pages say.\n"
      "  dslide doctor --data-dir /var/lib/dslide -o json\n"
      "      A directory of a shard, a coordinator, a model or copies; nothing is changed.\n"
      "Exit codes: 0 nothing is wrong, 1 warnings or errors, 4 a process cannot be reached, 5 "
      "state\n"
      "is lost or damaged, 6 a disk is full.");
  auto options = std::make_shared<DoctorOptions>();  // shared with the callback
  AddOption(command, "--coordinator,--cluster", options->cluster, "Coordinator HOST:PORT");
  // Not from the environment: servers' DSLIDE_DATA_DIR does not mean this.
  command.Add("--data-dir", options->data_dir, "Directory to examine instead of a cluster");
  AddOption(command, "--admin", options->admin,
            "Admin pages HOST:PORT to read as well, separated by commas")
      .Delimiter(',');
  RunWhenChosen(command, context, options, RunDoctor);
}

}  // namespace dslide::cli

// dslide status

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/cluster/connect.h"
#include "client/cli/cluster/job_view.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/operation_display.h"
#include "client/cli/console/repeat.h"
#include "client/cli/console/terminal.h"
#include "client/cpp/coordinator_client.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

std::string StatusToJson(const ClusterStatus& status) {
  nlohmann::ordered_json json;
  json["version"] = status.version;
  json["revision"] = status.revision;
  json["topology_version"] = status.topology_version;
  json["expected_shards"] = status.expected_shards;
  json["shards"] = nlohmann::ordered_json::array();
  for (const ShardInfo& shard : status.shards) {
    nlohmann::ordered_json entry;
    entry["shard"] = shard.shard.value();
    entry["address"] = shard.address;
    entry["health"] = ShardHealthName(shard.health);
    entry["generation"] = shard.generation;
    entry["capacity_weight"] = shard.capacity_weight;
    entry["memory_bytes"] = shard.memory_bytes;
    entry["applied_commands"] = shard.applied_commands;
    entry["commands_per_second"] = shard.commands_per_second;
    entry["admin_address"] = shard.admin_address;
    json["shards"].push_back(entry);
  }
  json["models"] = status.models;
  json["jobs"] = nlohmann::ordered_json::array();
  for (const JobStatus& job : status.jobs) {
    json["jobs"].push_back(JobToJson(job));
  }
  json["operations"] = nlohmann::ordered_json::array();
  for (const OperationStatus& operation : status.operations) {
    json["operations"].push_back({{"operation_id", operation.operation_id},
                                  {"kind", operation.kind},
                                  {"target", operation.target},
                                  {"cancel_requested", operation.cancel_requested},
                                  {"seconds", absl::ToDoubleSeconds(operation.elapsed)},
                                  {"stage", operation.stage},
                                  {"shards_done", operation.shards_done},
                                  {"shards", operation.shards}});
  }
  return json.dump();
}

std::string StatusToText(const ClusterStatus& status, const std::string& address) {
  std::string text =
      absl::StrFormat("Cluster at %s, version %s (%s), %d of %d shards", address, status.version,
                      status.revision, status.shards.size(), status.expected_shards);
  std::vector<std::vector<std::string>> shards;
  for (const ShardInfo& shard : status.shards) {
    shards.push_back({absl::StrCat(shard.shard.value()), shard.address,
                      ShardHealthName(shard.health), absl::StrCat(shard.generation),
                      ReadableBytes(static_cast<double>(shard.memory_bytes)),
                      WithThousands(shard.applied_commands)});
  }
  absl::StrAppend(
      &text, "\n\n",
      FormatTable({"shard", "address", "health", "generation", "memory", "commands"}, shards));
  absl::StrAppend(
      &text, "\n\nModels: ", status.models.empty() ? "none" : absl::StrJoin(status.models, ", "));
  for (const OperationStatus& operation : status.operations) {
    absl::StrAppend(&text, "\n\nOperation ", operation.operation_id, ": ", operation.kind,
                    operation.target.empty() ? "" : absl::StrCat(" ", operation.target), ", ",
                    DescribeProgress(operation));
  }
  if (!status.jobs.empty()) absl::StrAppend(&text, "\n\n", JobsTable(status.jobs));
  return text;
}

struct StatusOptions {
  std::string cluster = "127.0.0.1:7000";
  bool watch = false;
  std::string interval = "2s";
};

absl::StatusOr<int> RunStatus(const GlobalOptions& global, const StatusOptions& status_options) {
  const std::string& cluster = status_options.cluster;
  ASSIGN_OR_RETURN(const auto coordinator, ConnectToCoordinator(global, cluster));
  const auto show = [&]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const ClusterStatus status, coordinator->GetClusterStatus());
    return global.json() ? StatusToJson(status) : StatusToText(status, cluster);
  };
  ASSIGN_OR_RETURN(const absl::Duration interval,
                   ParseInterval("--interval", status_options.interval));
  if (status_options.watch) {
    RETURN_IF_ERROR(Repeat(interval, global.json(), show));
    return kExitOk;
  }
  ASSIGN_OR_RETURN(const std::string text, show());
  PrintLine(text);
  return kExitOk;
}

}  // namespace

void AddStatusCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand("status", "Show a cluster's shards, models and jobs",
                                               "Examples:\n"
                                               "  dslide status --cluster 127.0.0.1:7000\n"
                                               "  dslide status --cluster 127.0.0.1:7000 -o json\n"
                                               "  dslide status --watch --interval 5s");
  auto options = std::make_shared<StatusOptions>();  // shared with the callback
  AddOption(command, "--cluster", options->cluster, "Coordinator HOST:PORT");
  command.AddSwitch("--watch", options->watch, "Show it again and again, until Ctrl-C");
  AddOption(command, "--interval", options->interval, "Time between two looks of --watch");
  RunWhenChosen(command, context, options, RunStatus);
}

}  // namespace dslide::cli

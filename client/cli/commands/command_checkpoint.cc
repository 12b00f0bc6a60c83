// dslide checkpoint

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/cluster/checkpoint_copy.h"
#include "client/cli/cluster/connect.h"
#include "client/cli/commands/cluster_action.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/operation_display.h"
#include "client/cli/console/terminal.h"
#include "client/cpp/coordinator_client.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

// Flags of the whole group.
struct CheckpointOptions {
  std::string cluster = "127.0.0.1:7000";
  uint64_t checkpoint_id = 0;  // the newest
  std::string to;
  uint32_t keep_copies = 0;  // 0: all
  std::string from;
  uint32_t keep = 3;
  bool dry_run = false;
  bool yes = false;
  std::string operation_id;
};

// What the whole cluster writes or reads may take so long.
constexpr absl::Duration kLongest = absl::Hours(1);

using Options = std::shared_ptr<CheckpointOptions>;  // the parser's and the callbacks'

// Shards by the addresses of the cluster map.
CopyPeers PeersOf(const GlobalOptions& global, CoordinatorClient& coordinator) {
  return {.coordinator = &coordinator,
          .shard = [channels = NetworkChannels(global.Channels()), &global](
                       const ShardInfo& shard) -> absl::StatusOr<std::unique_ptr<ShardClient>> {
            ClientOptions options;
            ASSIGN_OR_RETURN(options.timeout, global.Timeout());
            ASSIGN_OR_RETURN(auto channel, channels(shard.address));
            return std::make_unique<ShardClient>(std::move(channel), shard.shard, shard.address,
                                                 options, nullptr);
          }};
}

nlohmann::ordered_json ToJson(const ClusterCheckpoint& checkpoint) {
  nlohmann::ordered_json json;
  json["checkpoint_id"] = checkpoint.checkpoint_id;
  json["created"] = absl::FormatTime(checkpoint.created, absl::UTCTimeZone());
  json["rows"] = checkpoint.rows();
  json["bytes"] = checkpoint.bytes();
  json["kind"] = checkpoint.kind();
  json["written_bytes"] = checkpoint.written_bytes();
  json["models"] = checkpoint.models;
  json["jobs"] = checkpoint.jobs;
  json["clients"] = checkpoint.clients;
  json["evicted"] = checkpoint.evicted.size();
  json["stall_seconds"] = absl::ToDoubleSeconds(checkpoint.stall);
  json["seconds"] = absl::ToDoubleSeconds(checkpoint.duration);
  json["topology_version"] = checkpoint.topology_version;
  json["damage"] = checkpoint.damage;
  json["shards"] = nlohmann::ordered_json::array();
  for (const CheckpointPart& part : checkpoint.parts) {
    json["shards"].push_back({{"shard", part.shard.value()},
                              {"generation", part.generation},
                              {"rows", part.rows},
                              {"files", part.files},
                              {"bytes", part.bytes},
                              {"written_bytes", part.written_bytes},
                              {"base_checkpoint_id", part.base_checkpoint_id}});
  }
  return json;
}

std::string Describe(const ClusterCheckpoint& checkpoint) {
  std::string text = absl::StrFormat(
      "Cluster checkpoint %d of %s\n"
      "  models: %s; jobs: %s\n"
      "  %s rows, %s; %s: %s written in %s, trainers stood still for %s\n"
      "  %d clients at one step on all shards",
      checkpoint.checkpoint_id, absl::FormatTime(checkpoint.created),
      checkpoint.models.empty() ? "none" : absl::StrJoin(checkpoint.models, ", "),
      checkpoint.jobs.empty() ? "none" : absl::StrJoin(checkpoint.jobs, ", "),
      WithThousands(checkpoint.rows()), ReadableBytes(static_cast<double>(checkpoint.bytes())),
      checkpoint.kind(), ReadableBytes(static_cast<double>(checkpoint.written_bytes())),
      absl::FormatDuration(checkpoint.duration), absl::FormatDuration(checkpoint.stall),
      checkpoint.clients);
  if (!checkpoint.evicted.empty()) {
    absl::StrAppendFormat(&text, "; %d did not finish their step and were retired",
                          checkpoint.evicted.size());
  }
  if (!checkpoint.damage.empty()) {
    absl::StrAppend(&text, "\n  DAMAGED: ", checkpoint.damage);
  }
  std::vector<std::vector<std::string>> rows;
  for (const CheckpointPart& part : checkpoint.parts) {
    rows.push_back({absl::StrCat(part.shard.value()), absl::StrCat(part.generation),
                    WithThousands(part.rows), absl::StrCat(part.files),
                    ReadableBytes(static_cast<double>(part.bytes)),
                    ReadableBytes(static_cast<double>(part.written_bytes)),
                    part.base_checkpoint_id == 0 ? "" : absl::StrCat(part.base_checkpoint_id)});
  }
  return absl::StrCat(
      text, "\n\n",
      FormatTable({"shard", "generation", "rows", "files", "size", "written", "on"}, rows));
}

absl::StatusOr<int> Create(const GlobalOptions& global, const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  OperationDisplay display(global);
  ASSIGN_OR_RETURN(const ClusterCheckpoint taken,
                   client->CreateClusterCheckpoint(kLongest, display.watch()));
  PrintLine(global.json() ? ToJson(taken).dump() : Describe(taken));
  return kExitOk;
}

absl::StatusOr<int> List(const GlobalOptions& global, const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const std::vector<ClusterCheckpoint> all, client->ListClusterCheckpoints());
  if (global.json()) {
    nlohmann::ordered_json json;
    json["checkpoints"] = nlohmann::ordered_json::array();
    for (const ClusterCheckpoint& checkpoint : all) {
      json["checkpoints"].push_back(ToJson(checkpoint));
    }
    PrintLine(json.dump());
    return kExitOk;
  }
  if (all.empty()) {
    PrintLine("No cluster checkpoint was taken yet: dslide checkpoint create");
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const ClusterCheckpoint& checkpoint : all) {
    rows.push_back(
        {absl::StrCat(checkpoint.checkpoint_id),
         absl::FormatTime("%Y-%m-%d %H:%M:%S", checkpoint.created, absl::LocalTimeZone()),
         WithThousands(checkpoint.rows()), ReadableBytes(static_cast<double>(checkpoint.bytes())),
         checkpoint.kind(), ReadableBytes(static_cast<double>(checkpoint.written_bytes())),
         absl::StrJoin(checkpoint.models, " "), checkpoint.damage.empty() ? "" : "damaged"});
  }
  PrintLine(FormatTable(
      {"checkpoint_id", "created", "rows", "size", "kind", "written", "models", ""}, rows));
  return kExitOk;
}

absl::StatusOr<int> Show(const GlobalOptions& global, const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const std::vector<ClusterCheckpoint> all, client->ListClusterCheckpoints());
  for (const ClusterCheckpoint& checkpoint : all) {
    if (options.checkpoint_id != 0 && checkpoint.checkpoint_id != options.checkpoint_id) continue;
    PrintLine(global.json() ? ToJson(checkpoint).dump() : Describe(checkpoint));
    return kExitOk;
  }
  return absl::NotFoundError(
      options.checkpoint_id == 0
          ? std::string("no cluster checkpoint was taken yet: dslide checkpoint create")
          : absl::StrCat("there is no cluster checkpoint ", options.checkpoint_id,
                         ": dslide checkpoint list"));
}

// Verifies the one that is meant; its number.
absl::StatusOr<uint64_t> VerifyAndShow(const GlobalOptions& global, CoordinatorClient& client,
                                       uint64_t checkpoint_id) {
  OperationDisplay display(global);
  return client.VerifyClusterCheckpoint(checkpoint_id, kLongest, display.watch());
}

absl::StatusOr<int> Verify(const GlobalOptions& global, const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const uint64_t checkpoint_id,
                   VerifyAndShow(global, *client, options.checkpoint_id));
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{{"checkpoint_id", checkpoint_id}, {"verified", true}}.dump());
  } else {
    PrintLine(absl::StrCat("Cluster checkpoint ", checkpoint_id, " is whole on every shard."));
  }
  return kExitOk;
}

absl::StatusOr<int> Copy(const GlobalOptions& global, const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const CopySize size,
                   CopyCheckpoint(PeersOf(global, *client), options.checkpoint_id, options.to));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  std::vector<uint64_t> removed;
  if (options.keep_copies > 0) {
    ASSIGN_OR_RETURN(removed, PruneCopies(options.to, options.keep_copies, size.checkpoint_id));
  }
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{
        {"checkpoint_id", size.checkpoint_id},
        {"path", size.path},
        {"files", size.files},
        {"bytes", size.bytes},
        {"seconds", seconds},
        {"removed",
         removed}}.dump());
    return kExitOk;
  }
  if (size.files == 0) {
    PrintLine(absl::StrCat("Cluster checkpoint ", size.checkpoint_id, " is in ", size.path,
                           " already, and whole."));
  } else {
    PrintLine(absl::StrFormat("Copied cluster checkpoint %d to %s: %d files, %s in %.1f s.",
                              size.checkpoint_id, size.path, size.files,
                              ReadableBytes(static_cast<double>(size.bytes)), seconds));
  }
  if (!removed.empty()) {
    PrintLine(absl::StrCat("Removed older copies: ", absl::StrJoin(removed, ", "), "."));
  }
  return kExitOk;
}

// Takes the copy to the cluster; its number.
absl::StatusOr<uint64_t> BringBack(const GlobalOptions& global, CoordinatorClient& client,
                                   const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const CheckpointCopy copy, OpenCopy(options.from, options.checkpoint_id));
  if (options.dry_run) {
    RETURN_IF_ERROR(VerifyCopy(copy).status());
    return copy.checkpoint_id;
  }
  ASSIGN_OR_RETURN(const CopySize sent, SendCopy(PeersOf(global, client), copy));
  if (!global.quiet) {
    PrintNote(absl::StrFormat("sent %d files, %s, to the shards", sent.files,
                              ReadableBytes(static_cast<double>(sent.bytes))));
  }
  return copy.checkpoint_id;
}

// A coordinator that tries to go back by itself is in the way for a moment.
absl::StatusOr<RestoredCheckpoint> RestoreOnceFree(const GlobalOptions& global,
                                                   CoordinatorClient& client,
                                                   uint64_t checkpoint_id) {
  ASSIGN_OR_RETURN(const absl::Duration patience, global.Timeout());
  OperationDisplay display(global);
  const absl::Time deadline = absl::Now() + patience;
  for (;;) {
    absl::StatusOr<RestoredCheckpoint> restored =
        client.RestoreClusterCheckpoint(checkpoint_id, kLongest, display.watch());
    if (!absl::IsAborted(restored.status()) || absl::Now() >= deadline) return restored;
    absl::SleepFor(absl::Milliseconds(200));
  }
}

void PrintRestored(const GlobalOptions& global, const RestoredCheckpoint& restored) {
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{{"checkpoint_id", restored.checkpoint_id},
                                     {"restored", true},
                                     {"skipped", restored.skipped}}
                  .dump());
    return;
  }
  if (!restored.skipped.empty()) {
    PrintNote(absl::StrCat("dslide: passed over because they are damaged: cluster checkpoints ",
                           absl::StrJoin(restored.skipped, ", ")));
  }
  PrintLine(absl::StrCat("The cluster is back at checkpoint ", restored.checkpoint_id,
                         "; trainers begin anew with the work that was open then."));
}

absl::StatusOr<int> Restore(const GlobalOptions& global, const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  uint64_t wanted = options.checkpoint_id;
  if (options.dry_run && !options.from.empty()) {
    ASSIGN_OR_RETURN(wanted, BringBack(global, *client, options));
    PrintLine(global.json()
                  ? nlohmann::ordered_json{{"checkpoint_id", wanted}, {"restored", false}}.dump()
                  : absl::StrCat("The copy of cluster checkpoint ", wanted,
                                 " is whole and would be brought back."));
    return kExitOk;
  }
  if (options.dry_run) {
    ASSIGN_OR_RETURN(const uint64_t checkpoint_id,
                     VerifyAndShow(global, *client, options.checkpoint_id));
    PrintLine(
        global.json()
            ? nlohmann::ordered_json{{"checkpoint_id", checkpoint_id}, {"restored", false}}.dump()
            : absl::StrCat("Cluster checkpoint ", checkpoint_id,
                           " is whole and would be restored: everything that was trained "
                           "after it would be gone."));
    return kExitOk;
  }
  if (!options.yes) {
    return absl::InvalidArgumentError(
        "everything that was trained after the checkpoint will be gone: add --yes, or --dry-run to "
        "see what would be done");
  }
  if (!options.from.empty()) {
    ASSIGN_OR_RETURN(wanted, BringBack(global, *client, options));
  }
  ASSIGN_OR_RETURN(const RestoredCheckpoint restored, RestoreOnceFree(global, *client, wanted));
  PrintRestored(global, restored);
  return kExitOk;
}

absl::StatusOr<int> Prune(const GlobalOptions& global, const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  std::vector<uint64_t> removed;
  if (options.dry_run) {
    ASSIGN_OR_RETURN(const std::vector<ClusterCheckpoint> all, client->ListClusterCheckpoints());
    for (size_t i = options.keep; i < all.size(); ++i) removed.push_back(all[i].checkpoint_id);
  } else {
    ASSIGN_OR_RETURN(removed, client->PruneClusterCheckpoints(options.keep));
  }
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{{"removed", removed}, {"dry_run", options.dry_run}}.dump());
    return kExitOk;
  }
  PrintLine(absl::StrCat(options.dry_run ? "Would remove " : "Removed ", removed.size(),
                         " cluster checkpoints",
                         removed.empty() ? "." : absl::StrCat(": ", absl::StrJoin(removed, ", "))));
  return kExitOk;
}

absl::StatusOr<int> Cancel(const GlobalOptions& global, const CheckpointOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const OperationStatus operation, client->CancelOperation(options.operation_id));
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{{"operation_id", operation.operation_id},
                                     {"kind", operation.kind},
                                     {"done", operation.done}}
                  .dump());
    return kExitOk;
  }
  PrintLine(absl::StrCat("Operation ", operation.operation_id, ", ", operation.kind,
                         operation.done
                             ? ", has ended before."
                             : ", was told to end: dslide status shows whether it has."));
  return kExitOk;
}

void AddEpoch(CliCommand command, const Options& options) {
  command
      .Add("CHECKPOINT", options->checkpoint_id,
           "Number of the checkpoint; the newest if not given")
      .Positive();
}

}  // namespace

void AddCheckpointCommand(CliCommand app, Context& context) {
  const CliCommand group =
      app.AddSubcommand("checkpoint", "Take, check and restore checkpoints of a whole cluster",
                        "Examples:\n"
                        "  dslide checkpoint create\n"
                        "  dslide checkpoint list\n"
                        "  dslide checkpoint verify\n"
                        "  dslide checkpoint restore 3 --yes");
  group.RequireSubcommand();
  const auto options = std::make_shared<CheckpointOptions>();
  AddClusterAction(group, context, options, "create", "Take a checkpoint while trainers go on",
                   "  dslide checkpoint create --cluster 127.0.0.1:7000 -o json", Create);
  AddClusterAction(group, context, options, "list", "List the checkpoints, the newest first",
                   "  dslide checkpoint list", List);
  AddEpoch(AddClusterAction(group, context, options, "show", "Show one checkpoint",
                            "  dslide checkpoint show\n  dslide checkpoint show 3", Show),
           options);
  AddEpoch(
      AddClusterAction(group, context, options, "verify", "Read every byte of one on every shard",
                       "  dslide checkpoint verify 3", Verify),
      options);
  const CliCommand copy =
      AddClusterAction(group, context, options, "copy",
                       "Copy one to a directory of this machine, off the shards' disks",
                       "  dslide checkpoint copy --to /backup/dslide\n"
                       "  dslide checkpoint copy 3 --to /backup/dslide -o json\n"
                       "  dslide checkpoint copy --to /backup/dslide --keep 7",
                       Copy);
  AddEpoch(copy, options);
  copy.Add("--to", options->to, "Directory of copies; made when absent").Required().TypeName("DIR");
  AddOption(copy, "--keep", options->keep_copies,
            "Then remove all copies there but so many, the newest; 0: remove none");
  const CliCommand restore = AddClusterAction(
      group, context, options, "restore", "Take the whole cluster back to one",
      "  dslide checkpoint restore --dry-run\n  dslide checkpoint restore 3 --yes\n"
      "  dslide checkpoint restore --from /backup/dslide --yes",
      Restore);
  AddEpoch(restore, options);
  restore
      .Add("--from", options->from,
           "Bring it back from a copy first: shards take the parts that they lack")
      .TypeName("DIR");
  restore.AddSwitch("--yes", options->yes, "Do it: what was trained after the checkpoint is lost");
  restore.AddSwitch("--dry-run", options->dry_run, "Verify the checkpoint and change nothing");
  AddClusterAction(group, context, options, "cancel",
                   "Cancel a checkpoint, verification or restore that dslide status shows",
                   "  dslide checkpoint cancel 3f9a1c2b77d04e15", Cancel)
      .Add("OPERATION", options->operation_id, "Its id")
      .Required();
  const CliCommand prune =
      AddClusterAction(group, context, options, "prune", "Remove all but the newest",
                       "  dslide checkpoint prune --keep 3 --dry-run", Prune);
  AddOption(prune, "--keep", options->keep, "How many stay").Positive();
  prune.AddSwitch("--dry-run", options->dry_run, "Only say what would be removed");
}

}  // namespace dslide::cli

// dslide up: a cluster of processes on this machine.

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/cluster/child_process.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/stdin_end.h"
#include "client/cli/console/terminal.h"
#include "client/cli/train/data_source.h"
#include "client/cpp/coordinator_client.h"
#include "core/base/status_macros.h"
#include "core/partition/slot_map.h"
#include "core/system/listen_address.h"

namespace dslide::cli {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);
// A shard writes its rows to disk when it is stopped: 1 GB takes a few seconds.
constexpr absl::Duration kShardPatience = absl::Minutes(5);
constexpr absl::Duration kCoordinatorPatience = absl::Seconds(15);

struct UpOptions {
  int64_t shards = 2;
  std::string listen = "127.0.0.1:7000";
  std::string data_dir;
  std::string log_dir;
  int64_t threads = 0;
  bool until_stdin_ends = false;
};

// The processes, coordinator first.
class LocalCluster {
 public:
  LocalCluster(const GlobalOptions& global, const UpOptions& options)
      : global_(global), options_(options), address_(options.listen) {}

  ~LocalCluster() { Stop(); }

  absl::StatusOr<int> Run() {
    RETURN_IF_ERROR(PrepareDirectories());
    RETURN_IF_ERROR(CheckAddress());
    RETURN_IF_ERROR(StartCoordinator());
    RETURN_IF_ERROR(StartShards());
    ASSIGN_OR_RETURN(const ClusterMap map, WaitUntilReady());
    Announce(map);
    while (!StopWanted()) {
      if (const int code = FindDead(); code >= 0) return code;
      absl::SleepFor(kPoll);
    }
    PrintNote("Stopping the cluster ...");
    return Stop();
  }

 private:
  bool StopWanted() const {
    return InterruptGuard::Interrupted() || (options_.until_stdin_ends && StdinEnded());
  }
  absl::Status PrepareDirectories();
  absl::Status CheckAddress();
  absl::Status Start(const std::string& name, const std::string& program,
                     std::vector<std::string> args);
  absl::Status StartCoordinator();
  absl::Status StartShards();
  absl::StatusOr<ClusterMap> WaitUntilReady();
  bool IsOfThisRun(const ClusterMap& map) const;
  void Announce(const ClusterMap& map);
  // The exit code of this command when a child has ended, else -1.
  int FindDead();
  int Stop();

  const GlobalOptions& global_;
  const UpOptions& options_;
  InterruptGuard interrupt_;
  std::string address_;
  std::string log_dir_;
  std::vector<std::unique_ptr<ChildProcess>> children_;
  const ChildProcess* reported_ = nullptr;  // whose death was told already
};

absl::Status LocalCluster::PrepareDirectories() {
  log_dir_ = options_.log_dir;
  if (log_dir_.empty() && !options_.data_dir.empty()) log_dir_ = options_.data_dir + "/logs";
  std::error_code error;
  if (log_dir_.empty()) {
    log_dir_ = (std::filesystem::temp_directory_path(error) / "dslide-up-XXXXXX").string();
    if (mkdtemp(log_dir_.data()) == nullptr) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot make ", log_dir_, "; set TMPDIR or --log-dir"));
    }
  }
  std::filesystem::create_directories(log_dir_, error);
  if (error) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot make ", log_dir_, ": ", error.message()));
  }
  return absl::OkStatus();
}

absl::Status LocalCluster::CheckAddress() {
  ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(address_));
  if (!IsLocalOnly(address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", address_, ": dslide up is for this machine only, use 127.0.0.1; ",
                     "for several machines start dslide-coordinator and dslide-shard"));
  }
  if (!address.is_unix && address.port == 0) {
    return absl::InvalidArgumentError("--listen needs a port that trainers can be told");
  }
  return CheckListenable(address);
}

absl::Status LocalCluster::Start(const std::string& name, const std::string& program,
                                 std::vector<std::string> args) {
  // On loopback, and this command's own certificate would be the wrong one for each of them.
  if (!global_.tls.empty()) {
    args.insert(args.end(),
                {"--tls-cert", "", "--tls-key", "", "--tls-ca", "", "--tls-crl-dir", ""});
  }
  std::string file = name;
  std::replace(file.begin(), file.end(), ' ', '-');
  ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> child,
                   ChildProcess::Start(name, absl::StrCat(ProgramDirectory(), "/", program), args,
                                       absl::StrCat(log_dir_, "/", file, ".log")));
  children_.push_back(std::move(child));
  return absl::OkStatus();
}

absl::Status LocalCluster::StartCoordinator() {
  std::vector<std::string> args = {"--listen",    address_,   "--admin",
                                   "127.0.0.1:0", "--shards", absl::StrCat(options_.shards)};
  if (!options_.data_dir.empty()) {
    args.insert(args.end(), {"--data-dir", options_.data_dir + "/coordinator"});
  }
  return Start("coordinator", "dslide-coordinator", args);
}

absl::Status LocalCluster::StartShards() {
  const Parallelism all = ThreadsOrAll(options_.threads);
  const int64_t threads = std::max<int64_t>(1, all.threads / options_.shards);
  for (int64_t shard = 0; shard < options_.shards; ++shard) {
    std::vector<std::string> args = {
        "--coordinator", address_,     "--listen",          "127.0.0.1:0", "--admin",
        "127.0.0.1:0",   "--shard-id", absl::StrCat(shard), "--threads",   absl::StrCat(threads)};
    if (!options_.data_dir.empty()) {
      args.insert(args.end(), {"--data-dir", absl::StrCat(options_.data_dir, "/shard-", shard)});
    }
    RETURN_IF_ERROR(Start(absl::StrCat("shard ", shard), "dslide-shard", args));
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterMap> LocalCluster::WaitUntilReady() {
  ASSIGN_OR_RETURN(const absl::Duration timeout, global_.Timeout());
  ASSIGN_OR_RETURN(auto channel, NetworkChannels({})(address_));
  // Short calls, so that a child that dies is seen at once.
  ClientOptions client;
  client.timeout = absl::Milliseconds(500);
  CoordinatorClient coordinator(channel, address_, client, nullptr);
  const absl::Time deadline = absl::Now() + timeout;
  for (;;) {
    absl::StatusOr<ClusterMap> map = coordinator.GetClusterMap();
    if (map.ok() && IsOfThisRun(*map)) return map;
    for (const auto& child : children_) {
      if (child->Running()) continue;
      reported_ = child.get();
      return absl::Status(child->exit_code() == kExitCannotListen ? absl::StatusCode::kAlreadyExists
                                                                  : absl::StatusCode::kUnknown,
                          child->Obituary());
    }
    if (StopWanted()) return absl::CancelledError("interrupted");
    if (absl::Now() >= deadline) {
      if (!map.ok()) return map.status();
      return absl::DeadlineExceededError(absl::StrCat("the shards did not register within ",
                                                      global_.timeout, "; see their logs in ",
                                                      log_dir_, ", or raise --timeout"));
    }
    absl::SleepFor(kPoll);
  }
}

// A coordinator with a data directory starts with the shards of its last run. Those that were
// killed said no good-bye: they are in the map, at addresses that nobody listens on any more.
bool LocalCluster::IsOfThisRun(const ClusterMap& map) const {
  for (size_t i = 0; i < map.shards.size(); ++i) {
    if (map.shards[i].address != LastLogValue(children_[i + 1]->log_path(), "address")) {
      return false;
    }
  }
  return true;
}

void LocalCluster::Announce(const ClusterMap& map) {
  if (global_.json()) {
    nlohmann::ordered_json json;
    json["coordinator"] = address_;
    json["coordinator_admin"] = LastLogValue(children_[0]->log_path(), "admin");
    json["shards"] = nlohmann::ordered_json::array();
    for (size_t i = 0; i < map.shards.size(); ++i) {
      nlohmann::ordered_json shard;
      shard["shard"] = i;
      shard["address"] = map.shards[i].address;
      shard["admin"] = LastLogValue(children_[i + 1]->log_path(), "admin");
      shard["pid"] = children_[i + 1]->pid();
      json["shards"].push_back(shard);
    }
    json["logs"] = log_dir_;
    PrintLine(json.dump());
    return;
  }
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"coordinator", address_,
                  absl::StrCat("http://", LastLogValue(children_[0]->log_path(), "admin")),
                  absl::StrCat(children_[0]->pid())});
  for (size_t i = 0; i < map.shards.size(); ++i) {
    rows.push_back({absl::StrCat("shard ", i), map.shards[i].address,
                    absl::StrCat("http://", LastLogValue(children_[i + 1]->log_path(), "admin")),
                    absl::StrCat(children_[i + 1]->pid())});
  }
  PrintLine(FormatTable({"process", "address", "admin page", "pid"}, rows));
  PrintLine(absl::StrCat(
      "\nLogs are in ", log_dir_, ".",
      options_.data_dir.empty() ? " Rows live in memory only (--data-dir DIR keeps them)." : "",
      "\nTrain on it from another terminal, as often at once as you like:\n"
      "  dslide train --data FILE --cluster ",
      address_, "\nCtrl-C stops the cluster."));
}

int LocalCluster::FindDead() {
  for (const auto& child : children_) {
    if (child->Running()) continue;
    reported_ = child.get();
    PrintNote(absl::StrCat("dslide up: ", child->Obituary(),
                           "\nA cluster cannot go on without it: stopping the rest."));
    const int code = child->exit_code();
    Stop();
    return code == kExitCannotListen ? code : kExitFailure;
  }
  return -1;
}

// Shards first: they say good-bye to the coordinator.
int LocalCluster::Stop() {
  int result = kExitOk;
  for (size_t i = 1; i < children_.size(); ++i) children_[i]->Terminate();
  for (size_t i = 1; i < children_.size(); ++i) children_[i]->WaitForEnd(kShardPatience);
  if (!children_.empty()) {
    children_[0]->Terminate();
    children_[0]->WaitForEnd(kCoordinatorPatience);
  }
  for (const auto& child : children_) {
    if (child->exit_code() == 0) continue;
    result = kExitFailure;
    if (child.get() != reported_) PrintNote(child->Obituary());
  }
  reported_ = nullptr;
  children_.clear();
  return result;
}

absl::StatusOr<int> RunUp(const GlobalOptions& global, const UpOptions& options) {
  if (options.shards < 1 || options.shards > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shards ", options.shards, ": must be in [1, ", kMaxShards, "]"));
  }
  return LocalCluster(global, options).Run();
}

}  // namespace

void AddUpCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "up", "Run a cluster of processes on this machine until Ctrl-C",
      "Examples:\n"
      "  dslide up --shards 4\n"
      "  dslide up --shards 2 --data-dir cluster-data\n"
      "      Rows are written to cluster-data at the stop and loaded again at the next start.");
  auto options = std::make_shared<UpOptions>();  // shared with the callback
  AddOption(command, "--shards", options->shards, "Shard processes");
  AddOption(command, "--listen", options->listen, "Address of the coordinator, on this machine");
  AddOption(command, "--data-dir", options->data_dir, "Directory that keeps rows and models");
  AddOption(command, "--log-dir", options->log_dir, "Directory of the processes' logs");
  AddThreads(command, options->threads, "Threads of all shards; 0: all of the machine");
  command.AddSwitch("--until-stdin-ends", options->until_stdin_ends,
                    "Stop also when standard input ends: with the program at its other end");
  RunWhenChosen(command, context, options, RunUp);
}

}  // namespace dslide::cli

// dslide top

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/cluster/connect.h"
#include "client/cli/cluster/top_view.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/repeat.h"
#include "client/cli/console/terminal.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/coordinator_client.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/net/http/http_client.h"

namespace dslide::cli {
namespace {

struct TopOptions {
  std::string cluster = "127.0.0.1:7000";
  std::vector<std::string> admin;
  std::string interval = "2s";
  bool once = false;
};

absl::StatusOr<MetricsText> ReadPage(const std::string& address, absl::Duration timeout) {
  ASSIGN_OR_RETURN(const HttpAnswer answer, HttpGetPage(address, "/metrics", timeout));
  if (answer.code != 200) {
    return absl::UnavailableError(
        absl::StrCat("http://", address, "/metrics answers with code ", answer.code));
  }
  return MetricsText::Parse(answer.body);
}

TopSample Look(CoordinatorClient& coordinator, const TopOptions& options, absl::Duration timeout) {
  TopSample sample{.when = {}, .status = coordinator.GetClusterStatus(), .pages = {}};
  std::vector<std::string> addresses = options.admin;
  if (sample.status.ok()) {
    for (const ShardInfo& shard : sample.status->shards) {
      if (shard.health != ShardHealth::kAlive || shard.admin_address.empty()) continue;
      addresses.push_back(shard.admin_address);
    }
  }
  absl::flat_hash_set<std::string> seen;
  for (const std::string& address : addresses) {
    if (!seen.insert(address).second) continue;
    sample.pages.push_back({address, ReadPage(address, timeout)});
  }
  sample.when = SteadyClock().Now();
  return sample;
}

absl::StatusOr<int> RunTop(const GlobalOptions& global, const TopOptions& options) {
  ASSIGN_OR_RETURN(const absl::Duration interval, ParseInterval("--interval", options.interval));
  ASSIGN_OR_RETURN(const absl::Duration timeout, global.Timeout());
  ASSIGN_OR_RETURN(const auto coordinator, ConnectToCoordinator(global, options.cluster));
  TopSample before = Look(*coordinator, options, timeout);
  RETURN_IF_ERROR(before.status.status());  // later ones are shown instead
  const auto show = [&](const TopSample& now) {
    return global.json() ? TopJson(before, now) : TopText(before, now, options.cluster);
  };
  if (options.once || (!global.json() && !IsTerminal(STDOUT_FILENO))) {
    absl::SleepFor(interval);
    PrintLine(show(Look(*coordinator, options, timeout)));
    return kExitOk;
  }
  RETURN_IF_ERROR(Repeat(interval, global.json(), [&]() -> absl::StatusOr<std::string> {
    TopSample now = Look(*coordinator, options, timeout);
    std::string text = show(now);
    before = std::move(now);
    return text;
  }));
  return kExitOk;
}

}  // namespace

void AddTopCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "top", "Show a cluster's rates: samples, bytes, queues, memory",
      "Examples:\n"
      "  dslide top --cluster 127.0.0.1:7000\n"
      "      Jobs, and the shards with the admin pages that they serve to others.\n"
      "  dslide top --admin 127.0.0.1:7001,127.0.0.1:7021\n"
      "      Also the coordinator's and a trainer's admin page.\n"
      "  dslide top --once -o json\n"
      "      One frame, for scripts.");
  auto options = std::make_shared<TopOptions>();  // shared with the callback
  AddOption(command, "--cluster", options->cluster, "Coordinator HOST:PORT");
  AddOption(command, "--admin", options->admin,
            "More admin pages HOST:PORT (trainers, coordinator), separated by commas")
      .Delimiter(',');
  AddOption(command, "--interval", options->interval, "Time between frames");
  command.AddSwitch("--once", options->once,
                    "Print one frame, after one interval; also where stdout is no terminal");
  RunWhenChosen(command, context, options, RunTop);
}

}  // namespace dslide::cli

// dslide health

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "core/base/status_macros.h"
#include "core/net/http/http_client.h"
#include "core/system/log.h"

namespace dslide::cli {
namespace {

struct HealthOptions {
  std::string admin = "127.0.0.1:7001";
  bool live = false;
};

constexpr size_t kShownBytes = 300;

// Not healthy has one exit code whatever the reason, as probes want it.
absl::StatusOr<int> RunHealth(const GlobalOptions& global, const HealthOptions& options) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, global.Timeout());
  const char* const path = options.live ? "/livez" : "/readyz";
  const absl::StatusOr<HttpAnswer> answer = HttpGetPage(options.admin, path, timeout);
  if (absl::IsInvalidArgument(answer.status())) {
    return absl::InvalidArgumentError(absl::StrCat("--admin: ", answer.status().message()));
  }
  const bool healthy = answer.ok() && answer->code == 200;
  const std::string said = answer.ok()
                               ? EscapeForLog(absl::StripAsciiWhitespace(answer->body), kShownBytes)
                               : std::string(answer.status().message());
  if (global.json()) {
    nlohmann::ordered_json json;
    json["healthy"] = healthy;
    json["code"] = answer.ok() ? answer->code : 0;
    json["answer"] = said;
    PrintLine(json.dump());
  } else if (healthy) {
    PrintLine(said);
  } else {
    PrintNote(absl::StrCat("dslide health: ", said));
  }
  return healthy ? kExitOk : kExitFailure;
}

}  // namespace

void AddHealthCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "health", "Ask a server's admin page whether it is ready; for container health checks",
      "Examples:\n"
      "  dslide health --admin 127.0.0.1:7011\n"
      "  dslide health --live --timeout 2s      whether it lives at all, ready or not\n"
      "Exit codes: 0 healthy, 1 not, 2 wrong flags.");
  auto options = std::make_shared<HealthOptions>();  // shared with the callback
  AddOption(command, "--admin", options->admin,
            "HOST:PORT of the admin page; a host that means every interface is asked on loopback");
  command.AddSwitch("--live", options->live, "Ask /livez instead of /readyz");
  RunWhenChosen(command, context, options, RunHealth);
}

}  // namespace dslide::cli

// dslide log

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "core/base/status_macros.h"
#include "services/inspect/log_inspection.h"

namespace dslide::cli {
namespace {

void PrintLogJson(const LogInspection& log) {
  nlohmann::ordered_json json;
  json["path"] = log.path;
  json["first"] = log.first;
  json["last"] = log.last;
  json["records"] = log.records;
  json["bytes"] = log.bytes;
  json["high_water"] = log.high_water;
  json["torn"] = log.torn;
  json["kinds"] = log.kinds;
  PrintLine(json.dump());
}

void PrintLog(const LogInspection& log) {
  PrintLine(absl::StrFormat("%s: records %d to %d, %d bytes; durable up to %d at least", log.path,
                            log.first, log.last, log.bytes, log.high_water));
  for (const auto& [kind, records] : log.kinds) {
    PrintLine(absl::StrFormat("  %-12s %d", kind, records));
  }
  PrintLine(log.torn
                ? "A crash has torn off the end, which nobody was promised: a start cuts it off."
                : "The log is whole.");
}

}  // namespace

void AddLogCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand("log", "Look into the command log of a shard",
                                               "Examples:\n  dslide log inspect /var/lib/dslide");
  command.RequireSubcommand();
  const CliCommand inspect =
      command.AddSubcommand("inspect", "Say what a start would make of the log; nothing is changed",
                            "Examples:\n  dslide log inspect /var/lib/dslide -o json");
  const auto path = std::make_shared<std::string>();  // the parser's and the callback's
  inspect.Add("DIR", *path, "A shard's data directory, or the command_log in it").Required();
  inspect.OnChosen([&context, path] {
    context.run = [&context, path]() -> absl::StatusOr<int> {
      ASSIGN_OR_RETURN(const LogInspection log, InspectCommandLog(*path));
      context.global.json() ? PrintLogJson(log) : PrintLog(log);
      return kExitOk;
    };
  });
}

}  // namespace dslide::cli

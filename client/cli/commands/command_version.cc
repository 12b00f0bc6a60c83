// dslide version

#include <nlohmann/json.hpp>

#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "core/base/version.h"
#include "core/engine/math/kernels.h"

namespace dslide::cli {

void AddVersionCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand("version", "Print version, revision and compiler",
                                               "Examples:\n  dslide version -o json");
  command.OnChosen([&context] {
    context.run = [&context]() -> absl::StatusOr<int> {
      if (!context.global.json()) {
        PrintLine(VersionLine("dslide"));
        return kExitOk;
      }
      nlohmann::ordered_json json;
      json["version"] = Version();
      json["revision"] = Revision();
      json["compiler"] = Compiler();
      json["instruction_set"] = std::string(KernelTarget());
      PrintLine(json.dump());
      return kExitOk;
    };
  });
}

}  // namespace dslide::cli

// What a subcommand of `dslide` leaves behind when it was chosen.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

struct Context {
  GlobalOptions global = {};
  std::vector<std::string> args = {};  // of the whole command line, without the program
  // Set by the chosen subcommand's callback; returns the exit code or an error.
  std::function<absl::StatusOr<int>()> run = {};
};

// A command that was chosen runs `run(global options, *options)`.
template <typename Options, typename Run>
void RunWhenChosen(CliCommand command, Context& context, const std::shared_ptr<Options>& options,
                   Run run) {
  command.OnChosen([&context, options, run] {
    context.run = [&context, options, run] { return run(context.global, *options); };
  });
}

}  // namespace dslide::cli

// A subcommand of a group that talks to a cluster: job, model, checkpoint.

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/command_line.h"

namespace dslide::cli {

template <typename Options>
using ClusterAction = absl::StatusOr<int> (*)(const GlobalOptions&, const Options&);

// options: of the whole group, with a `cluster`; shared with the callback.
template <typename Options>
CliCommand AddClusterAction(CliCommand group, Context& context,
                            const std::shared_ptr<Options>& options, const char* name,
                            const char* help, const std::string& examples,
                            ClusterAction<Options> action) {
  const CliCommand command = group.AddSubcommand(name, help, absl::StrCat("Examples:\n", examples));
  AddOption(command, "--cluster", options->cluster, "Coordinator HOST:PORT");
  RunWhenChosen(command, context, options, action);
  return command;
}

}  // namespace dslide::cli

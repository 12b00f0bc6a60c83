// What a subcommand of `dslide` leaves behind when it was chosen.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"

namespace dslide::cli {

struct Context {
  GlobalOptions global = {};
  std::vector<std::string> args = {};  // of the whole command line, without the program
  // Set by the chosen subcommand's callback; returns the exit code or an error.
  std::function<absl::StatusOr<int>()> run = {};
};

}  // namespace dslide::cli

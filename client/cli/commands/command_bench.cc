// dslide bench: the benchmarks are a program of their own beside this one, since they link what a
// user of dslide does not need.

#include "client/cli/commands/command_bench.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cli/cluster/child_process.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"

namespace dslide::cli {

absl::StatusOr<std::string> BenchProgram(const std::string& directory) {
  const std::string path = directory + "/dslide-bench";
  if (access(path.c_str(), X_OK) == 0) return path;
  return absl::NotFoundError(absl::StrCat(
      path, " is not there: build it with ./run build, or run the dslide of that build"));
}

int RunBench(const std::vector<std::string>& args) {
  const absl::StatusOr<std::string> program = BenchProgram(ProgramDirectory());
  if (!program.ok()) {
    PrintNote(absl::StrCat("dslide bench: ", program.status().message()));
    return kExitFailure;
  }
  std::vector<char*> arguments = {const_cast<char*>(program->c_str())};
  for (const std::string& arg : args) arguments.push_back(const_cast<char*>(arg.c_str()));
  arguments.push_back(nullptr);
  execv(program->c_str(), arguments.data());
  PrintNote(absl::StrCat("dslide bench: cannot run ", *program, ": ", std::strerror(errno)));
  return kExitFailure;
}

void AddBenchCommand(CliCommand app, Context& context) {
  const CliCommand command =
      app.AddSubcommand("bench", "Measure dslide on this machine (dslide-bench --help)",
                        "Examples:\n  dslide bench rpc\n  dslide bench rpc -o json");
  command.OnChosen([&context] { context.run = [] { return RunBench({}); }; });
}

}  // namespace dslide::cli

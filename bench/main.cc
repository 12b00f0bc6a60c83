// dslide-bench: what `dslide bench ...` runs. Each subcommand lives in a folder of its own.

#include <cstdio>

#include "bench/common/common_commands.h"
#include "bench/dense/blas_core.h"
#include "bench/dense/dense_command.h"
#include "bench/neighbours/neighbours_command.h"
#include "bench/rpc/rpc_command.h"
#include "bench/serve/serve_command.h"
#include "bench/train/train_command.h"
#include "core/base/version.h"
#include "core/flags/command_line.h"
#include "core/system/files/standard_streams.h"
#include "core/system/malloc_tuning.h"

int main(int argc, char** argv) {
  dslide::PrepareStandardStreams();
  dslide::bench::RestartWithBetterBlas(argv);
  dslide::TuneMalloc();
  dslide::CommandLine command_line("dslide bench",
                                   "Measures dslide beside what it is compared with.",
                                   dslide::VersionLine("dslide-bench"));
  const dslide::CliCommand app = command_line.root();
  app.RequireSubcommand();
  int exit_code = 0;
  dslide::bench::AddRpcCommand(app, &exit_code);
  dslide::bench::AddTrainCommand(app, &exit_code);
  dslide::bench::AddDenseCommand(app, &exit_code);
  dslide::bench::AddNeighboursCommand(app, &exit_code);
  dslide::bench::AddServeCommand(app, &exit_code);
  dslide::bench::AddDataCommand(app, &exit_code);
  dslide::bench::AddMachineCommand(app, &exit_code);
  const dslide::Parsed parsed = command_line.Parse({argv + 1, argv + argc});
  using Outcome = dslide::Parsed::Outcome;
  if (parsed.outcome == Outcome::kError) {
    std::fprintf(stderr, "%s: %s\nSee: %s --help\n", parsed.command.c_str(), parsed.text.c_str(),
                 parsed.command.c_str());
    return 2;
  }
  if (parsed.outcome != Outcome::kRun) dslide::WriteResult(parsed.text + "\n");
  return dslide::ExitWithResults(parsed.command, exit_code, /*disk_full=*/1);
}

// dslide-bench: what `dslide bench ...` runs. Each subcommand lives in a folder of its own.

#include <CLI/CLI.hpp>
#include <csignal>

#include "bench/common/common_commands.h"
#include "bench/dense/blas_core.h"
#include "bench/dense/dense_command.h"
#include "bench/rpc/rpc_command.h"
#include "bench/train/train_command.h"
#include "core/base/heap.h"
#include "core/base/version.h"

int main(int argc, char** argv) {
  dslide::bench::RestartWithBetterBlas(argv);
  dslide::KeepFreedMemory();
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Measures dslide beside what it is compared with.", "dslide bench");
  app.set_version_flag("--version", dslide::VersionLine("dslide-bench"));
  app.require_subcommand(1);
  int exit_code = 0;
  dslide::bench::AddRpcCommand(app, &exit_code);
  dslide::bench::AddTrainCommand(app, &exit_code);
  dslide::bench::AddDenseCommand(app, &exit_code);
  dslide::bench::AddDataCommand(app, &exit_code);
  dslide::bench::AddMachineCommand(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}

// dslide-bench: measurements, one subcommand a folder.

#include <CLI/CLI.hpp>

#include "bench/common/common_commands.h"
#include "bench/dense/blas_core.h"
#include "bench/dense/dense_command.h"
#include "bench/train/train_command.h"

int main(int argc, char** argv) {
  dslide::bench::RestartWithBetterBlas(argv);
  int exit_code = 0;
  CLI::App app("Measures dslide beside what it is compared with.", "dslide-bench");
  app.require_subcommand(1);
  dslide::bench::AddTrainCommand(app, &exit_code);
  dslide::bench::AddDenseCommand(app, &exit_code);
  dslide::bench::AddDataCommand(app, &exit_code);
  dslide::bench::AddMachineCommand(app, &exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}

// dslide: train, evaluate, predict, and run a local cluster.

#include <csignal>
#include <string>
#include <vector>

#include "client/cli/commands/command_line.h"
#include "core/net/library_logs/library_logs.h"
#include "core/system/malloc_tuning.h"
#include "core/system/omp_spinning.h"

int main(int argc, char** argv) {
  dslide::DisableOmpSpinning(argv);
  dslide::TuneMalloc();
  dslide::ForwardLibraryLogs();
  // A reader that goes away (dslide ... | head) is a failed write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  return dslide::cli::RunCommandLine(std::vector<std::string>(argv + 1, argv + argc));
}

// dslide: train, evaluate, predict, and run a local cluster.

#include <stdlib.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "client/cli/commands/command_line.h"
#include "core/net/library_logs/library_logs.h"
#include "core/system/files/standard_streams.h"
#include "core/system/malloc_tuning.h"
#include "core/system/omp_spinning.h"
#include "core/system/process/first_process.h"
#include "core/system/process/uncaught.h"

int main(int argc, char** argv) {
  dslide::EndOnSignalsAsFirstProcess();
  dslide::PrepareStandardStreams();
  dslide::DisableOmpSpinning(argv);
  dslide::TuneMalloc();
  // As for other variables: set to nothing is not set.
  if (const char* const folder = std::getenv("TMPDIR"); folder != nullptr && *folder == '\0') {
    unsetenv("TMPDIR");
  }
  dslide::ForwardLibraryLogs();
  dslide::ExitOnUncaught("dslide");
  return dslide::cli::RunCommandLine(std::vector<std::string>(argv + 1, argv + argc));
}

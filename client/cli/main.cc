// dslide: train, evaluate, predict, and run a local cluster.

#include <csignal>
#include <string>
#include <vector>

#include "client/cli/command_line.h"
#include "core/base/heap.h"
#include "core/base/passive_waiting.h"

int main(int argc, char** argv) {
  dslide::WaitPassively(argv);
  dslide::KeepFreedMemory();
  // A reader that goes away (dslide ... | head) is a failed write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  return dslide::cli::RunCommandLine(std::vector<std::string>(argv + 1, argv + argc));
}

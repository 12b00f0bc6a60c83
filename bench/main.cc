// dslide-bench: what `dslide bench ...` runs. Each subcommand lives in a folder of its own.

#include <CLI/CLI.hpp>
#include <csignal>

#include "bench/rpc/rpc_command.h"
#include "core/base/heap.h"
#include "core/base/version.h"

int main(int argc, char** argv) {
  dslide::KeepFreedMemory();
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Measures dslide on this machine.", "dslide bench");
  app.set_version_flag("--version", dslide::VersionLine("dslide-bench"));
  app.require_subcommand(1);
  int exit_code = 0;
  dslide::bench::AddRpcCommand(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}

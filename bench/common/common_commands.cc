#include "bench/common/common_commands.h"

#include <omp.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/common/bench_data.h"
#include "bench/common/machine.h"
#include "bench/common/run_command.h"
#include "core/base/status_macros.h"

namespace dslide::bench {
namespace {

absl::Status RunData(const DataShape& shape) {
  ASSIGN_OR_RETURN(const DataFiles files,
                   MakeData(shape, Parallelism{.threads = omp_get_num_procs()}));
  nlohmann::ordered_json json;
  json["train"] = files.train;
  json["eval"] = files.eval;
  PrintResult(json);
  return absl::OkStatus();
}

}  // namespace

void AddDataCommand(CliCommand app, int* exit_code) {
  const CliCommand command =
      app.AddSubcommand("data", "Make data of a shape, unless it is there, and print its paths");
  auto shape = std::make_shared<DataShape>();  // shared with the callback
  AddShapeOptions(command, *shape);
  command.OnChosen([shape, exit_code] { *exit_code = ExitCode("data", RunData(*shape)); });
}

void AddMachineCommand(CliCommand app, int* exit_code) {
  const CliCommand command = app.AddSubcommand("machine", "Print build and machine as JSON");
  command.OnChosen([exit_code] {
    PrintResult(DescribeMachine());
    *exit_code = 0;
  });
}

}  // namespace dslide::bench

#include "client/cli/report/run_record.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cluster/job_view.h"
#include "client/cli/console/shell_word.h"
#include "core/engine/math/kernels.h"

namespace dslide::cli {
namespace {

using Json = nlohmann::ordered_json;

std::optional<double> OptionalNumber(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

// "" where the system does not say.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "";
}

Json MachineToJson(const RunMachine& machine) {
  return {{"processor", machine.processor},
          {"processors", machine.processors},
          {"memory_bytes", machine.memory_bytes},
          {"system", machine.system},
          {"instruction_set", machine.instruction_set}};
}

RunMachine MachineFromJson(const Json& json) {
  RunMachine machine;
  json.at("processor").get_to(machine.processor);
  json.at("processors").get_to(machine.processors);
  json.at("memory_bytes").get_to(machine.memory_bytes);
  json.at("system").get_to(machine.system);
  json.at("instruction_set").get_to(machine.instruction_set);
  return machine;
}

// Throws what nlohmann::json throws.
RunRecord FieldsFromJson(const Json& json) {
  RunRecord record;
  json.at("command").get_to(record.command);
  json.at("data").get_to(record.data);
  json.at("eval").get_to(record.eval);
  json.at("training_points").get_to(record.training_points);
  json.at("held_out_points").get_to(record.held_out_points);
  json.at("data_fingerprint").get_to(record.data_fingerprint);
  json.at("threads").get_to(record.threads);
  record.machine = MachineFromJson(json.at("machine"));
  for (const Json& entry : json.at("epochs")) {
    record.epochs.push_back({.epoch = entry.at("epoch").get<int64_t>(),
                             .loss = OptionalNumber(entry.at("loss")),
                             .metric = OptionalNumber(entry.at("metric")),
                             .samples_per_second = OptionalNumber(entry.at("samples_per_second"))});
  }
  record.result = json.at("result");
  return record;
}

// For a shell: the variables DSLIDE_* that are set, by name, the program, its arguments.
std::string CommandToRepeat(const std::vector<std::string>& args) {
  std::vector<std::string> words;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view variable(*entry);
    const size_t equals = variable.find('=');
    // An empty one counts as unset.
    if (!absl::StartsWith(variable, "DSLIDE_") || equals + 1 >= variable.size()) continue;
    words.push_back(
        absl::StrCat(variable.substr(0, equals), "=", ShellWord(variable.substr(equals + 1))));
  }
  std::sort(words.begin(), words.end());
  words.push_back("dslide");
  for (const std::string& arg : args) words.push_back(ShellWord(arg));
  return absl::StrJoin(words, " ");
}

}  // namespace

RunMachine RunMachine::Here() {
  RunMachine machine;
  machine.processor = ProcessorName();
  machine.processors = static_cast<int64_t>(std::thread::hardware_concurrency());
  machine.memory_bytes =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  utsname name;
  if (uname(&name) == 0) {
    machine.system = absl::StrCat(name.sysname, " ", name.release);
    if (machine.processor.empty()) machine.processor = name.machine;
  }
  machine.instruction_set = std::string(KernelTarget());
  return machine;
}

RunRecord BeginRunRecord(const RunRequest& request, const Dataset& data, const TrainingSplit& split,
                         Parallelism parallelism) {
  return {.command = CommandToRepeat(request.args),
          .data = request.data,
          .eval = request.eval,
          .training_points = split.num_training(),
          .held_out_points = split.num_validation(),
          .data_fingerprint = data.Fingerprint(),
          .threads = parallelism.threads,
          .machine = RunMachine::Here()};
}

std::vector<EpochResult> JobCurves(ClusterClient& cluster) {
  const absl::StatusOr<ClusterStatus> status = cluster.coordinator().GetClusterStatus();
  if (!status.ok()) return {};
  for (const JobStatus& job : status->jobs) {
    if (job.job == cluster.options().job) return job.epochs;
  }
  return {};
}

std::string RunRecordToJson(const RunRecord& record) {
  const Json json = {{"format", kRunRecordFormat},
                     {"command", record.command},
                     {"data", record.data},
                     {"eval", record.eval},
                     {"training_points", record.training_points},
                     {"held_out_points", record.held_out_points},
                     {"data_fingerprint", record.data_fingerprint},
                     {"threads", record.threads},
                     {"machine", MachineToJson(record.machine)},
                     {"epochs", EpochsToJson(record.epochs)},
                     {"result", record.result}};
  // Paths and arguments may be of any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<RunRecord> RunRecordFromJson(const std::string& text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected an object with the number \"format\""));
  }
  if (const int64_t format = json["format"].get<int64_t>(); format != kRunRecordFormat) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": format ", format,
                                                   ", this program knows ", kRunRecordFormat,
                                                   ": use the version that wrote it"));
  }
  try {
    return FieldsFromJson(json);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
}

}  // namespace dslide::cli

// How a model was trained, as a model directory keeps it: run.json, for `dslide report`.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/cluster_client.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/epoch_order.h"
#include "core/protocol/cluster_status.h"

namespace dslide::cli {

inline constexpr int kRunRecordFormat = 1;

// The machine that a training ran on.
struct RunMachine {
  std::string processor = {};
  int64_t processors = 0;
  int64_t memory_bytes = 0;
  std::string system = {};           // "Linux 6.1.0"
  std::string instruction_set = {};  // of the kernels

  // This one.
  static RunMachine Here();
};

struct RunRecord {
  std::string command = {};  // for a POSIX shell, variables in front
  std::string data = {};     // paths as they were given
  std::string eval = {};     // "": none
  int64_t training_points = 0;
  int64_t held_out_points = 0;
  uint64_t data_fingerprint = 0;
  int64_t threads = 0;
  RunMachine machine = {};
  // Of the job; empty for a model that has no epochs, and before the end.
  std::vector<EpochResult> epochs = {};
  // What `dslide train -o json` says; null before the end.
  nlohmann::ordered_json result = nullptr;
};

// What a person has asked for.
struct RunRequest {
  const std::vector<std::string>& args;  // of the command line, without the program
  const std::string& data;
  const std::string& eval;
};
// What is known before a training begins.
RunRecord BeginRunRecord(const RunRequest& request, const Dataset& data, const TrainingSplit& split,
                         Parallelism parallelism);
// Of the client's job; none where the coordinator cannot be asked.
std::vector<EpochResult> JobCurves(ClusterClient& cluster);

// The content of run.json.
std::string RunRecordToJson(const RunRecord& record);
// `path` shows in errors. Errors: InvalidArgument for a newer format or a malformed text.
absl::StatusOr<RunRecord> RunRecordFromJson(const std::string& text, const std::string& path);

}  // namespace dslide::cli

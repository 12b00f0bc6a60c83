// What a person can do with a model that was just trained: commands to paste into a shell.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/model/model_dir.h"
#include "core/engine/data/dataset.h"

namespace dslide::cli {

// The flags of the training.
struct TrainedFrom {
  std::string data;
  std::string eval;       // "": none
  std::string model_dir;  // "": not kept
  std::string cluster;    // "": embedded
  int64_t shards = 0;     // of the embedded cluster
};

// "" when there is nothing to say. An example text is made of words that the model knows. Errors:
// those of reading the data.
absl::StatusOr<std::string> NextCommands(const TrainedFrom& from, const StoredModel& model,
                                         const Dataset& data);

}  // namespace dslide::cli

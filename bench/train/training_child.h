// A training by the dslide program that is installed beside this one.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dslide::bench {

// The last line of a program's output that is a JSON object.
// Errors: Internal when there is none, with the end of the output.
absl::StatusOr<nlohmann::ordered_json> LastJsonLine(const std::string& output);

// Runs `dslide train ARGUMENTS -o json` to its end and returns what it reports. Its processor time
// counts as that of this process's children afterwards.
// Errors: NotFound when the program is not there; Internal with the end of its output when it
// fails; those of LastJsonLine().
absl::StatusOr<nlohmann::ordered_json> RunTraining(const std::vector<std::string>& arguments);

}  // namespace dslide::bench

// What the subcommands of dslide-bench share: how they report and how they fail.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"

namespace dslide::bench {

inline constexpr int kExitFailure = 1;
// This build or machine cannot do it; stderr says why.
inline constexpr int kExitSkipped = 77;

// A line to stderr: progress, and everything that is no result.
void Say(const std::string& text);

// A line to stdout.
void PrintResult(const std::string& text);
void PrintResult(const nlohmann::ordered_json& json);

// 0, kExitSkipped for Unimplemented and kExitFailure for every other error, after saying why.
int ExitCode(const std::string& command, const absl::Status& status);

}  // namespace dslide::bench

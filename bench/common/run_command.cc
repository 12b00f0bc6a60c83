#include "bench/common/run_command.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/system/files/standard_streams.h"

namespace dslide::bench {

void Say(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
}

void PrintResult(const std::string& text) { WriteResult(absl::StrCat(text, "\n")); }

void PrintResult(const nlohmann::ordered_json& json) { PrintResult(json.dump()); }

int ExitCode(const std::string& command, const absl::Status& status) {
  if (status.ok()) return 0;
  if (absl::IsUnimplemented(status)) {
    Say(absl::StrCat("skipped: ", status.message()));
    return kExitSkipped;
  }
  Say(absl::StrCat("dslide-bench ", command, ": ", status.message()));
  return kExitFailure;
}

}  // namespace dslide::bench

#include "core/system/stage_times.h"

namespace dslide {

absl::string_view StageName(Stage stage) {
  static constexpr std::array<absl::string_view, kNumStages> kNames = {
      "embed_forward", "embed_update", "lookup",   "ranking", "inversion",  "forward",
      "recall",        "head_update",  "centring", "rehash",  "table_build"};
  return kNames[static_cast<size_t>(stage)];
}

}  // namespace dslide

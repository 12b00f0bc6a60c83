// What a figure has to be read with: where, when and of which build it was measured.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace dslide::bench {

// The processor's name in the text of /proc/cpuinfo; "unknown" when it has none.
std::string ProcessorName(absl::string_view cpuinfo);

// TCP congestion control of new sockets, "bbr" for example; "unknown" where the system does not
// say.
std::string CongestionControl();

// {"commit", "cpu", "processors", "memory_bytes", "instruction_set", "date"}: the revision of this
// build, the processor and how many there are, the memory, the instruction set of the kernels and
// the time now (UTC, RFC 3339).
nlohmann::ordered_json DescribeMachine();

}  // namespace dslide::bench

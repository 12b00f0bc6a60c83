#include "bench/common/machine.h"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/version.h"
#include "core/engine/math/kernels.h"

namespace dslide::bench {

std::string ProcessorName(absl::string_view cpuinfo) {
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    std::string name(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    if (!name.empty()) return name;
  }
  return "unknown";
}

std::string CongestionControl() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  return file >> name ? name : "unknown";
}

nlohmann::ordered_json DescribeMachine() {
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream cpuinfo;
  cpuinfo << file.rdbuf();
  nlohmann::ordered_json json;
  json["commit"] = Revision();
  json["cpu"] = ProcessorName(cpuinfo.str());
  json["processors"] = static_cast<int64_t>(sysconf(_SC_NPROCESSORS_ONLN));
  json["memory_bytes"] = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  json["instruction_set"] = std::string(KernelTarget());
  json["date"] = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
  return json;
}

}  // namespace dslide::bench

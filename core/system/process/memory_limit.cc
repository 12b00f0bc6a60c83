#include "core/system/process/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dslide {
namespace {

// The number in a file of one line; `none` without the file, or when it says "max".
int64_t NumberIn(const std::string& path, int64_t none) {
  std::ifstream file(path);
  std::string line;
  int64_t number = 0;
  if (!std::getline(file, line) || !absl::SimpleAtoi(line, &number)) return none;
  return number;
}

// The least limit of a group and of all above it. Inside a container the group's own path does not
// exist, and the mount's top is the container.
int64_t LeastOfGroups(const std::string& mount, std::string group, const char* file,
                      int64_t least) {
  for (;;) {
    least = std::min(least, NumberIn(absl::StrCat(mount, group, "/", file), least));
    const size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return least;
    group.resize(slash);
  }
}

}  // namespace

int64_t MemoryLimitBytes(const std::string& root) {
  int64_t least =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGE_SIZE));
  rlimit space = {};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
    least = std::min(least, static_cast<int64_t>(space.rlim_cur));
  }
  std::ifstream groups(absl::StrCat(root, "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) {  // v2
      least = LeastOfGroups(absl::StrCat(root, "/sys/fs/cgroup"), parts[2], "memory.max", least);
    }
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      least = LeastOfGroups(absl::StrCat(root, "/sys/fs/cgroup/memory"), parts[2],
                            "memory.limit_in_bytes", least);
    }
  }
  return least;
}

}  // namespace dslide

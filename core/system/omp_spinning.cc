#include "core/system/omp_spinning.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace dslide {

void DisableOmpSpinning(char** argv) {
  constexpr char kVariable[] = "OMP_WAIT_POLICY";
  if (std::getenv(kVariable) != nullptr) return;
  // The path itself, not the link: the kernel names the process after it.
  std::array<char, 4096> path = {};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0 || setenv(kVariable, "passive", 1) != 0) return;
  execv(path.data(), argv);
}

}  // namespace dslide

// What the kernel says of memory of this process.

#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace dslide {

// The flags of the mapping that holds `address` ("rd wr hg ..."); empty where the kernel tells none
// or has no huge pages.
inline std::string MemoryFlags(const void* address) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) return "";
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') {
      inside = begin <= wanted && wanted < end;
    }
    if (inside && line.starts_with("VmFlags:")) return line.substr(8);
  }
  return "";
}

}  // namespace dslide

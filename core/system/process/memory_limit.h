// How much memory this process may use.

#pragma once

#include <cstdint>
#include <string>

namespace dslide {

// The least of the machine's memory, the limits of the control groups (v1 and v2) that the process
// is in, and its address space (ulimit -v), in bytes. `root` stands before /proc and /sys, for
// tests.
int64_t MemoryLimitBytes(const std::string& root = "");

}  // namespace dslide

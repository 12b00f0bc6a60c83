// Named places at which a process can be told to die, for tests of what a crash there leaves
// behind:
//
//   DSLIDE_FAILPOINT("shard.log.synced");
//
// A source may use it when its folder's CMakeLists.txt lists it with dslide_failpoints(). Compiled
// in by the CMake option DSLIDE_FAILPOINTS, which is on where tests are built, and off in what is
// shipped: there the macro is nothing at all.
//
// The environment variable DSLIDE_FAILPOINTS arms one of them: "NAME" kills the process (SIGKILL)
// the first time it gets there, "NAME:3" the third time. Unarmed, a place costs a relaxed load.
// Every name lies in the program behind "dslide-failpoint:", so that a reader of the program finds
// all of them.
//
// Thread safety: safe from any thread.

#pragma once

#include <atomic>

namespace dslide {

// Whether one is armed. Set once, before main(). Global because the places are everywhere.
extern std::atomic<bool> failpoint_armed;

// Counts, and does not return when it is the armed one's turn. `marked_name`: with its mark.
void ReachFailpoint(const char* marked_name);

}  // namespace dslide

#ifdef DSLIDE_FAILPOINTS
#define DSLIDE_FAILPOINT(name)                                       \
  do {                                                               \
    if (::dslide::failpoint_armed.load(std::memory_order_relaxed)) { \
      ::dslide::ReachFailpoint("dslide-failpoint:" name);            \
    }                                                                \
  } while (false)
#else
#define DSLIDE_FAILPOINT(name) static_cast<void>(0)
#endif

// Exit codes of the service binaries. Documented in --help; stable.

#pragma once

namespace dslide {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;       // anything else, e.g. the final checkpoint failed
inline constexpr int kExitUsage = 2;         // a flag, variable or configuration key is wrong
inline constexpr int kExitCannotListen = 3;  // an address is taken or is not this machine's
inline constexpr int kExitDataDir = 4;       // the data directory is locked, corrupt or unwritable

}  // namespace dslide

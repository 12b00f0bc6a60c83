// Exit codes of the `dslide` command. Documented in docs/start/commands.md and in --help; stable.

#pragma once

#include "absl/status/status.h"

namespace dslide::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;       // anything that has no code of its own
inline constexpr int kExitUsage = 2;         // wrong flags, or input that is malformed or missing
inline constexpr int kExitCannotListen = 3;  // an address is taken, or is not this machine's
inline constexpr int kExitUnreachable = 4;   // the cluster, or a part of it, did not answer in time
inline constexpr int kExitDataLoss = 5;      // state is lost or damaged: restore or train again
inline constexpr int kExitDiskFull = 6;      // a disk, or the user's share of it, is full
inline constexpr int kExitInterrupted = 130;  // Ctrl-C or SIGTERM; what was trained is kept

// The code for a command that ended with `status`.
int ExitCodeOf(const absl::Status& status);

}  // namespace dslide::cli

// Mistakes that the simulated surroundings of the product can be told to make: a simulation that
// does not find them is worth nothing.

#pragma once

#include <optional>

#include "absl/strings/string_view.h"

namespace dslide::simulation {

enum class Bug {
  kNone,
  kAckBeforeSync,       // the log says "durable" before it has synced
  kDedupLostAtRestart,  // clients are not restored with the rows
  kTornRecordAccepted,  // a record that is cut off counts
  kCutWithoutHolding,   // shards answer FreezeSteps, and hold no step
  kPartWithoutCopies,   // rows of a part are read late, whoever has changed them meanwhile
  kSyncRetried,         // a failed sync is taken for a success when the next one works
  kCommitBeforeParts,   // the manifest does not wait for the parts
  kCutWithoutRows,      // a checkpoint is taken while a shard has not got its rows back
  kRestoreForgotten,    // the coordinator starts without the mark of a restore
  kJobsForgotten,       // the coordinator starts without its jobs
  kGreetsTooEarly,      // a shard without its rows talks to clients before the cluster goes back
};

// As --bug has it; kNone has no name.
absl::string_view BugName(Bug bug);
std::optional<Bug> BugOfName(absl::string_view name);

}  // namespace dslide::simulation

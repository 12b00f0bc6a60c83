// What a clean stop in mode checkpoint keeps besides the rows: clients with the answers kept for
// them, ids that left, open steps, and the digest of the rows that they belong to.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

// A pass over all rows.
std::string EncodeStopState(const ShardCore& core);

// Puts it into a core that has its rows and has applied nothing yet. path: for errors.
// Errors: DataLoss when it is damaged or of other rows; FailedPrecondition when another version has
// written it; the core is then good for nothing.
absl::Status DecodeStopState(const std::string& path, absl::string_view bytes, ShardCore& core);

}  // namespace dslide::shard

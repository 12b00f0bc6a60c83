// The state of a shard's core that is not rows, as bytes: limits, counts, clients with the answers
// kept for them, ids that left, and the contexts of open steps.
//
// Hash tables are not in it (hash_image.h).

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

// As bytes of a record of its own.
std::string EncodeLimits(const CoreLimits& limits);
// Errors: DataLoss.
absl::StatusOr<CoreLimits> DecodeLimits(absl::string_view bytes);

std::string EncodeCoreState(const ShardCore& core);

// Puts it into a core that has applied nothing yet; its models may be there already.
// Errors: DataLoss; FailedPrecondition for another version; the core is then good for nothing.
absl::Status RestoreCoreState(absl::string_view bytes, ShardCore& core);

}  // namespace dslide::shard

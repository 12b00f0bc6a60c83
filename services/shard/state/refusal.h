// The status of a request that is wrong in itself.

#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"

namespace dslide::shard {

// InvalidArgument with a word of core/protocol/reason_words.h.
inline absl::Status Refuse(absl::string_view reason, absl::string_view message) {
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason, message);
}

}  // namespace dslide::shard

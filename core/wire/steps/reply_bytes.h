// Answers to mutations as bytes, exactly: for the images of a shard's memory of what it answered.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/protocol/replies.h"

namespace dslide::wire {

// The reply of a step operation or a scatter, or an error.
std::string EncodeReply(const Reply& reply);
// Errors: DataLoss.
absl::StatusOr<Reply> DecodeReply(absl::string_view bytes);

}  // namespace dslide::wire

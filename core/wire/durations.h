// google.protobuf.Duration <-> absl::Duration.

#pragma once

#include <google/protobuf/duration.pb.h>

#include "absl/time/time.h"

namespace dslide::wire {

// Beyond what the message can hold (10,000 years), the nearest that it can. Exact to the
// nanosecond.
void EncodeDuration(absl::Duration duration, google::protobuf::Duration* out);

// Of any content, also one that is no proper Duration; never infinite.
absl::Duration DecodeDuration(const google::protobuf::Duration& wire);

}  // namespace dslide::wire

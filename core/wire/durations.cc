#include "core/wire/durations.h"

#include <algorithm>
#include <cstdint>

namespace dslide::wire {
namespace {

// What protobuf allows.
constexpr absl::Duration kLongest = absl::Seconds(int64_t{315'576'000'000});

}  // namespace

void EncodeDuration(absl::Duration duration, google::protobuf::Duration* out) {
  absl::Duration rest = std::clamp(duration, -kLongest, kLongest);
  out->set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
  out->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

absl::Duration DecodeDuration(const google::protobuf::Duration& wire) {
  return std::clamp(absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos()), -kLongest,
                    kLongest);
}

}  // namespace dslide::wire

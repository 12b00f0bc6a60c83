#include "client/cpp/client_options.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "core/base/counter_rng.h"
#include "core/base/reason.h"

namespace dslide {

absl::Duration RetryOptions::Delay(int attempt, uint64_t salt) const {
  const double factor = std::pow(multiplier, std::clamp(attempt - 1, 0, 60));
  const absl::Duration nominal = std::min(max_delay, first_delay * factor);
  CounterRng spread(DeriveKey(salt, static_cast<uint64_t>(attempt)));
  return nominal * (0.5 + 0.5 * static_cast<double>(spread.NextUniform()));
}

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kApplied:
      return "applied";
    case Outcome::kNotApplied:
      return "not applied";
    case Outcome::kUnknown:
      return "unknown";
  }
  return "unknown";
}

Outcome OutcomeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Outcome::kApplied;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return Outcome::kNotApplied;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      // gRPC itself uses both; ours carry a reason word and were refused before they were applied.
      return ReasonOf(status).empty() ? Outcome::kUnknown : Outcome::kNotApplied;
    default:
      return Outcome::kUnknown;
  }
}

ClientId NewClientId() {
  std::random_device entropy;
  ClientId id;
  for (size_t i = 0; i < id.size(); i += sizeof(uint32_t)) {
    const uint32_t word = entropy();
    std::memcpy(id.data() + i, &word, sizeof(word));
  }
  return id;
}

}  // namespace dslide

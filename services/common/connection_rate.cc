#include "services/common/connection_rate.h"

#include <algorithm>

namespace dslide {

ConnectionRate::ConnectionRate(int64_t per_second)
    : per_second_(static_cast<double>(per_second)),
      shared_{.tokens = per_second_, .filled = absl::ZeroDuration()} {}

std::optional<absl::Duration> ConnectionRate::Admit(absl::string_view address, absl::Duration now) {
  if (per_second_ <= 0) return now;
  return Take(BucketOf(address, now), now);
}

double ConnectionRate::TokensAt(const Bucket& bucket, absl::Duration now) const {
  const double seconds = absl::ToDoubleSeconds(now - bucket.filled);
  return std::min(per_second_, bucket.tokens + seconds * per_second_);
}

std::optional<absl::Duration> ConnectionRate::Take(Bucket& bucket, absl::Duration now) const {
  const double left = TokensAt(bucket, now) - 1;
  if (left < -per_second_ * kWaitSeconds) return std::nullopt;
  bucket = {.tokens = left, .filled = now};
  return now + absl::Seconds(std::max(0.0, -left) / per_second_);
}

ConnectionRate::Bucket& ConnectionRate::BucketOf(absl::string_view address, absl::Duration now) {
  const auto found = buckets_.find(address);
  if (found != buckets_.end()) return found->second;
  if (buckets_.size() >= kMaxAddresses) {
    absl::erase_if(buckets_,
                   [&](const auto& entry) { return TokensAt(entry.second, now) >= per_second_; });
  }
  if (buckets_.size() >= kMaxAddresses) return shared_;
  return buckets_.try_emplace(address, Bucket{.tokens = per_second_, .filled = now}).first->second;
}

}  // namespace dslide

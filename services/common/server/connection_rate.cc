#include "services/common/server/connection_rate.h"

#include <algorithm>

namespace dslide {

bool ConnectionRate::Take(absl::string_view address, absl::Duration now) {
  if (per_second_ <= 0) return true;
  Bucket& bucket = BucketOf(address, now);
  const double left = TokensAt(bucket, now) - 1;
  if (left < 0) return false;
  bucket = {.tokens = left, .filled = now};
  return true;
}

absl::Duration ConnectionRate::NextTurn(absl::string_view address, absl::Duration now) {
  if (per_second_ <= 0) return now;
  const double missing = 1 - TokensAt(BucketOf(address, now), now);
  return now + absl::Seconds(std::max(0.0, missing) / per_second_);
}

void ConnectionRate::Charge(absl::string_view address, absl::Duration now) {
  if (per_second_ <= 0) return;
  Bucket& bucket = BucketOf(address, now);
  const double left = TokensAt(bucket, now) - per_second_;
  bucket = {.tokens = std::max(left, -per_second_ * kMostDebtSeconds), .filled = now};
}

double ConnectionRate::TokensAt(const Bucket& bucket, absl::Duration now) const {
  const double seconds = absl::ToDoubleSeconds(now - bucket.filled);
  return std::min(per_second_, bucket.tokens + seconds * per_second_);
}

ConnectionRate::Bucket& ConnectionRate::BucketOf(absl::string_view address, absl::Duration now) {
  const auto found = buckets_.find(address);
  if (found != buckets_.end()) return found->second;
  if (buckets_.size() >= kMaxAddresses) {
    absl::erase_if(buckets_,
                   [&](const auto& entry) { return TokensAt(entry.second, now) >= per_second_; });
  }
  if (buckets_.size() >= kMaxAddresses) return shared_;
  return buckets_.try_emplace(address).first->second;
}

}  // namespace dslide

// How often one address may connect.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

// A TLS handshake takes milliseconds of a processor before anybody has shown a certificate, so who
// connects over and over must not get as many as it likes, and not all at one time, where others
// would wait for their end. Each address has a token bucket: it may connect `per_second` times a
// second, after a quiet time a second's worth at once, and kWaitSeconds' worth more wait for their
// turns. So many trainers of one machine may start together, and nobody notices.
//
// What is remembered is bounded: addresses whose buckets are full again are forgotten, and while
// there are more than kMaxAddresses others, new ones share a bucket.
//
// Thread safety: of one thread. Times are of a monotonic clock and never go back.
class ConnectionRate {
 public:
  static constexpr int64_t kWaitSeconds = 4;
  static constexpr size_t kMaxAddresses = 4096;

  // 0: any number.
  explicit ConnectionRate(int64_t per_second);

  // When the next connection of `address` (any bytes that name it) has its turn, `now` or later.
  // None: too many wait already; the call changes nothing then.
  std::optional<absl::Duration> Admit(absl::string_view address, absl::Duration now);

  size_t addresses() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens;          // below 0: turns that are given away already
    absl::Duration filled;  // when it had so many
  };

  std::optional<absl::Duration> Take(Bucket& bucket, absl::Duration now) const;
  double TokensAt(const Bucket& bucket, absl::Duration now) const;
  Bucket& BucketOf(absl::string_view address, absl::Duration now);

  const double per_second_;  // also as many as an address may save up
  absl::flat_hash_map<std::string, Bucket> buckets_;
  Bucket shared_;
};

}  // namespace dslide

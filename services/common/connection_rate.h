// How often one address may connect.

#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

// A TLS handshake takes milliseconds of a processor before anybody has shown a certificate, so who
// connects over and over must not get as many as it likes. Each address has a token bucket: it may
// connect `per_second` times a second, and after a quiet time kBurstSeconds' worth at once.
//
// What is remembered is bounded: addresses whose buckets are full again are forgotten, and while
// there are more than kMaxAddresses others, new ones share a bucket.
//
// Thread safety: of one thread. Times are of a monotonic clock and never go back.
class ConnectionRate {
 public:
  static constexpr int64_t kBurstSeconds = 10;
  static constexpr size_t kMaxAddresses = 4096;

  // 0: any number.
  explicit ConnectionRate(int64_t per_second);

  // Whether `address` (any bytes that name it) may connect now.
  bool Admit(absl::string_view address, absl::Duration now);

  size_t addresses() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens;
    absl::Duration filled;  // when it had so many
  };

  bool Take(Bucket& bucket, absl::Duration now) const;
  double TokensAt(const Bucket& bucket, absl::Duration now) const;
  Bucket& BucketOf(absl::string_view address, absl::Duration now);

  const double per_second_;
  const double burst_;
  absl::flat_hash_map<std::string, Bucket> buckets_;
  Bucket shared_;
};

}  // namespace dslide

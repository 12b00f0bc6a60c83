// How often one address may connect.

#pragma once

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

// A TLS handshake takes milliseconds of a processor before anybody has shown a certificate, so who
// connects over and over must not get as many as it likes. Each address has a token bucket: a turn
// takes one token, `per_second` come back every second, and as many may be saved up. So many
// trainers of one machine may start together, and nobody notices. A connection that turns out to be
// of no use costs its address a second's worth more: who only tries gets one a second.
//
// What is remembered is bounded: addresses whose buckets are full again are forgotten, and while
// there are more than kMaxAddresses others, new ones share a bucket.
//
// Thread safety: of one thread. Times are of a monotonic clock and never go back.
class ConnectionRate {
 public:
  static constexpr size_t kMaxAddresses = 4096;
  // No address owes more than this many seconds' worth: who comes after an attack that shared its
  // address gets a turn soon.
  static constexpr int64_t kMostDebtSeconds = 2;

  // 0: any number.
  explicit ConnectionRate(int64_t per_second) : per_second_(static_cast<double>(per_second)) {}

  // Takes a turn of `address` (any bytes that name it). False: it has none now.
  bool Take(absl::string_view address, absl::Duration now);
  // When it has one, `now` or later, if nobody takes any before.
  absl::Duration NextTurn(absl::string_view address, absl::Duration now);
  // A connection of it was of no use.
  void Charge(absl::string_view address, absl::Duration now);

  size_t addresses() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens = 0;                                  // below 0: a debt
    absl::Duration filled = -absl::InfiniteDuration();  // when it had so many
  };

  double TokensAt(const Bucket& bucket, absl::Duration now) const;
  Bucket& BucketOf(absl::string_view address, absl::Duration now);

  const double per_second_;
  absl::flat_hash_map<std::string, Bucket> buckets_;
  Bucket shared_;
};

}  // namespace dslide

// A bound from below of the k-th largest of a stream of numbers.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace dslide {

// Counts numbers above 0 by their first bits: the bound is at most 3 % too low. A number costs a
// few instructions, where a heap costs a mispredicted branch for each of its levels.
//
// Keeps its memory, 32 KB, from stream to stream. Not thread-safe.
class KthFloor {
 public:
  KthFloor() = default;

  // Begins a new stream. k >= 1.
  void Start(int64_t k) {
    counts_.resize(size_t{1} << (31 - kDroppedBits));
    if (last_ >= first_) std::fill(counts_.begin() + first_, counts_.begin() + last_ + 1, 0);
    *this = KthFloor(k, std::move(counts_));
  }

  void Add(float number) {
    if (!(number > 0)) return;
    const uint32_t bucket = std::bit_cast<uint32_t>(number) >> kDroppedBits;
    ++counts_[bucket];
    first_ = std::min(first_, bucket);
    last_ = std::max(last_, bucket);
    if (bucket < floor_ || ++above_ < k_) return;
    floor_ = std::max(floor_, first_);
    while (above_ - counts_[floor_] >= k_) above_ -= counts_[floor_++];
    value_ = std::bit_cast<float>(floor_ << kDroppedBits);
  }

  // At least k numbers are as large. Minus infinity while there are fewer than k above 0.
  float value() const { return value_; }

 private:
  // Sign, exponent and five bits of the mantissa remain.
  static constexpr uint32_t kDroppedBits = 18;

  KthFloor(int64_t k, std::vector<uint32_t> counts) : k_(k), counts_(std::move(counts)) {}

  int64_t k_ = 1;
  int64_t above_ = 0;   // numbers in bucket floor_ and those above
  uint32_t floor_ = 0;  // the bucket of the k-th largest, once there are as many
  float value_ = -std::numeric_limits<float>::infinity();
  uint32_t first_ = std::numeric_limits<uint32_t>::max();  // of the buckets in use
  uint32_t last_ = 0;
  std::vector<uint32_t> counts_;
};

}  // namespace dslide

#include "core/engine/data/epoch_order.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"

namespace dslide {
namespace {

// Parts of a seed that must not share random numbers.
constexpr uint64_t kEpochPart = 0x65706f6368ULL;
constexpr uint64_t kSplitPart = 0x73706c6974ULL;

bool IsIdentity(const IndexPermutation& permutation) {
  for (int64_t i = 0; i < permutation.size(); ++i) {
    if (permutation.Map(i) != i) return false;  // nearly always at the first index
  }
  return true;
}

IndexPermutation MovingPermutation(int64_t num_points, uint64_t key) {
  IndexPermutation permutation(num_points, key);
  for (uint64_t attempt = 1; num_points > 1 && IsIdentity(permutation); ++attempt) {
    permutation = IndexPermutation(num_points, DeriveKey(key, attempt));
  }
  return permutation;
}

}  // namespace

IndexPermutation::IndexPermutation(int64_t size, uint64_t key) : size_(size), key_(key) {
  assert(size >= 1 && size <= (int64_t{1} << 62));
  const int bits = std::bit_width(static_cast<uint64_t>(size - 1));
  low_bits_ = (bits + 1) / 2;
  low_mask_ = (uint64_t{1} << low_bits_) - 1;
  high_mask_ = (uint64_t{1} << (bits - low_bits_)) - 1;
}

uint64_t IndexPermutation::Round(int round, uint64_t half) const {
  return CounterBits(key_ + static_cast<uint64_t>(round), half);
}

uint64_t IndexPermutation::Encrypt(uint64_t value) const {
  uint64_t low = value & low_mask_;
  uint64_t high = value >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    high ^= Round(round, low) & high_mask_;
    low ^= Round(round + 1, high) & low_mask_;
  }
  return (high << low_bits_) | low;
}

uint64_t IndexPermutation::Decrypt(uint64_t value) const {
  uint64_t low = value & low_mask_;
  uint64_t high = value >> low_bits_;
  for (int round = kRounds - 2; round >= 0; round -= 2) {
    low ^= Round(round + 1, high) & low_mask_;
    high ^= Round(round, low) & high_mask_;
  }
  return (high << low_bits_) | low;
}

int64_t IndexPermutation::Map(int64_t index) const {
  assert(index >= 0 && index < size_);
  uint64_t value = static_cast<uint64_t>(index);
  do {
    value = Encrypt(value);
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

int64_t IndexPermutation::Inverse(int64_t image) const {
  assert(image >= 0 && image < size_);
  uint64_t value = static_cast<uint64_t>(image);
  do {
    value = Decrypt(value);
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

EpochOrder::EpochOrder(int64_t num_points, uint64_t seed, int64_t epoch)
    : permutation_(MovingPermutation(
          num_points, DeriveKey(DeriveKey(seed, kEpochPart), static_cast<uint64_t>(epoch)))) {}

absl::StatusOr<TrainingSplit> TrainingSplit::Create(int64_t num_points, uint64_t seed,
                                                    double fraction, int64_t max_validation) {
  if (num_points < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot split ", num_points, " points; at least 1 is needed"));
  }
  if (!(fraction >= 0.0 && fraction <= 0.5)) {
    return absl::InvalidArgumentError(
        absl::StrCat("validation fraction ", fraction, " is outside [0, 0.5]"));
  }
  if (max_validation < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "at most ", max_validation, " validation points make no sense; use 0 for no bound"));
  }
  int64_t held_out = static_cast<int64_t>(std::floor(static_cast<double>(num_points) * fraction));
  if (max_validation > 0) held_out = std::min(held_out, max_validation);
  return TrainingSplit(IndexPermutation(num_points, DeriveKey(seed, kSplitPart)), held_out);
}

TrainingSplit TrainingSplit::All(int64_t num_points) {
  return TrainingSplit(IndexPermutation(num_points, 0), 0);
}

TrainingSplit TrainingSplit::FromHeldOut(absl::Span<const uint8_t> held_out) {
  std::vector<int64_t> points;
  for (const bool wanted : {true, false}) {
    for (size_t i = 0; i < held_out.size(); ++i) {
      if ((held_out[i] != 0) == wanted) points.push_back(static_cast<int64_t>(i));
    }
  }
  const auto count = static_cast<int64_t>(held_out.size());
  TrainingSplit split(IndexPermutation(count, 0),
                      count - std::count(held_out.begin(), held_out.end(), 0));
  split.told_ = std::make_shared<const std::vector<int64_t>>(std::move(points));
  return split;
}

int64_t TrainingSplit::TrainingPoint(int64_t position) const {
  if (told_ != nullptr) return (*told_)[static_cast<size_t>(num_validation_ + position)];
  if (num_validation_ == 0) return position;
  return permutation_.Map(num_validation_ + position);
}

int64_t TrainingSplit::ValidationPoint(int64_t position) const {
  if (told_ != nullptr) return (*told_)[static_cast<size_t>(position)];
  return permutation_.Map(position);
}

bool TrainingSplit::IsValidation(int64_t point) const {
  if (told_ != nullptr) {
    return std::binary_search(told_->begin(), told_->begin() + num_validation_, point);
  }
  return num_validation_ > 0 && permutation_.Inverse(point) < num_validation_;
}

}  // namespace dslide

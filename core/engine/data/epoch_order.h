// Deterministic orders of points, without memory proportional to their number.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dslide {

// A keyed bijection of [0, size): a Feistel network on the next power of two, walked until it falls
// into the range (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). At most two
// rounds of the network per call on average. Not for cryptography.
//
// Thread safety: immutable. The same on every machine.
class IndexPermutation {
 public:
  // Requires 1 <= size <= 2^62.
  IndexPermutation(int64_t size, uint64_t key);

  int64_t size() const { return size_; }

  // Requires 0 <= index < size().
  int64_t Map(int64_t index) const;
  // Inverse(Map(i)) == i.
  int64_t Inverse(int64_t image) const;

 private:
  static constexpr int kRounds = 8;

  uint64_t Round(int round, uint64_t half) const;
  uint64_t Encrypt(uint64_t value) const;
  uint64_t Decrypt(uint64_t value) const;

  int64_t size_;
  uint64_t key_;
  int low_bits_ = 0;
  uint64_t low_mask_ = 0;
  uint64_t high_mask_ = 0;
};

// The order in which one epoch visits `num_points` points: PointAt() is a bijection of
// [0, num_points) given by (seed, epoch), and never the file order (unless there is one point).
//
// Thread safety: immutable.
class EpochOrder {
 public:
  // Requires num_points >= 1, epoch >= 0.
  EpochOrder(int64_t num_points, uint64_t seed, int64_t epoch);

  int64_t num_points() const { return permutation_.size(); }

  // The point at position 0 <= position < num_points().
  int64_t PointAt(int64_t position) const { return permutation_.Map(position); }

 private:
  IndexPermutation permutation_;
};

// Splits points into training and validation parts: by seed alone, in constant memory, or as it is
// told.
//
// Training points are numbered 0 .. num_training() - 1 and validation points
// 0 .. num_validation() - 1, in an order without meaning; compose with EpochOrder for an epoch:
//   split.TrainingPoint(EpochOrder(split.num_training(), seed, epoch).PointAt(position))
//
// Thread safety: immutable.
class TrainingSplit {
 public:
  // Holds out min(floor(num_points * fraction), max_validation) points; max_validation 0: no bound.
  // Errors: InvalidArgument if num_points < 1, fraction outside [0, 0.5] or max_validation < 0.
  static absl::StatusOr<TrainingSplit> Create(int64_t num_points, uint64_t seed, double fraction,
                                              int64_t max_validation);
  // Holds out the points whose entry is not 0. held_out: [points], at least one of them 0.
  static TrainingSplit FromHeldOut(absl::Span<const uint8_t> held_out);
  // All points are for training, in file order.
  static TrainingSplit All(int64_t num_points);

  int64_t num_points() const { return permutation_.size(); }
  int64_t num_training() const { return permutation_.size() - num_validation_; }
  int64_t num_validation() const { return num_validation_; }

  // Requires 0 <= position < num_training(). Returns the point's index in the dataset.
  int64_t TrainingPoint(int64_t position) const;
  // Requires 0 <= position < num_validation(). Returns the point's index in the dataset.
  int64_t ValidationPoint(int64_t position) const;
  // Requires 0 <= point < num_points().
  bool IsValidation(int64_t point) const;

 private:
  TrainingSplit(IndexPermutation permutation, int64_t num_validation)
      : permutation_(permutation), num_validation_(num_validation) {}

  IndexPermutation permutation_;
  int64_t num_validation_;
  // Instead of the permutation: points that are held out, then the others, each ascending. Shared
  // by copies; null where the seed decides.
  std::shared_ptr<const std::vector<int64_t>> told_;
};

}  // namespace dslide

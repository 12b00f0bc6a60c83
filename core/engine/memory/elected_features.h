// The features that stand for a sparse vector: a weighted MinHash of it by one permutation hashing.
//
// A feature has about 64 w^2 / |x|^2 copies; each is hashed to a bin and a number, and in each of
// 32 bins the smallest number elects its feature. Heavy features have more copies, so they are
// elected in more bins. Two vectors elect a common feature in a bin with a probability that grows
// with the weight that they share (their weighted Jaccard similarity, for one bin).
//
// Source: Li, Owen and Zhang 2012 (one permutation hashing), with integer weights as copies. Where
// an empty bin borrows the winner of another (Shrivastava 2017, densified), no further feature is
// elected, so bins stay empty here; and an election counts whatever the bin.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// A function of the vector alone: equal for equal features and values, on every machine. Not
// thread-safe.
class FeatureElection {
 public:
  // [features.size()]: 1 for those that are elected. Valid until the next call.
  //   values : [features.size()]
  absl::Span<const uint8_t> Elect(absl::Span<const RowId> features, absl::Span<const float> values);

 private:
  std::vector<uint8_t> elected_;
};

}  // namespace dslide

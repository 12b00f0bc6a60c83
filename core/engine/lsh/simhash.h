// SimHash from structured random projections. The exact algorithm is in docs/understand/hashing.md.

#pragma once

#include <cstdint>
#include <vector>

#include "core/engine/lsh/hash_family.h"
#include "core/engine/lsh/hash_lanes.h"

namespace dslide {

// One code is one bit: the sign of a random projection of the extended vector.
//
// A block of n = max(16, next power of two >= dim) projections is y = H D3 H D2 H D1 x, with H the
// unnormalised Walsh-Hadamard matrix and D1..D3 diagonals of random signs; y / n has the spread of
// a projection by n random signs. The extras are added with random signs of their own.
// Cost: about 3 n log2(n) additions for n bits.
class SimHash final : public HashFamily {
 public:
  // `spec` is valid and has codes_per_table > 0.
  SimHash(const HashSpec& spec, int64_t dim);

  int64_t dim() const override { return dim_; }
  int64_t num_tables() const override { return num_tables_; }
  int64_t fingerprint_bits() const override { return codes_; }
  void HashQueries(absl::Span<const float> hidden, int64_t count, Parallelism parallelism,
                   absl::Span<uint32_t> fingerprints) const override;
  void HashRows(absl::Span<const float> rows, absl::Span<const float> extras, int64_t count,
                Parallelism parallelism, absl::Span<uint32_t> fingerprints) const override;

 private:
  // The random numbers of one block of projections. All arrays: [n].
  struct Block {
    std::vector<float> signs[3];        // diagonals of D1, D2, D3
    std::vector<float> extra_signs[2];  // of the two extras
  };
  struct Scratch;

  void Hash(const HashInput& input, Parallelism parallelism, uint32_t* fingerprints) const;
  void HashGroup(const HashInput& input, int64_t first, int64_t lanes, Scratch& scratch,
                 uint32_t* fingerprints) const;
  void Project(const Block& block, Scratch& scratch) const;
  void SignBits(const Block& block, int64_t i, int64_t first, int64_t count,
                Scratch& scratch) const;

  const int64_t dim_;
  const int64_t codes_;
  const int64_t num_tables_;
  const int64_t width_;  // n
  std::vector<Block> blocks_;
};

}  // namespace dslide

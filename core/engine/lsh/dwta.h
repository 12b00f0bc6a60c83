// Densified winner-take-all hashing. The exact algorithm is in docs/understand/hashing.md.

#pragma once

#include <cstdint>
#include <vector>

#include "core/engine/lsh/hash_family.h"
#include "core/engine/lsh/hash_lanes.h"

namespace dslide {

// One code is the position of the largest entry of a bin: `bin_size` coordinates of the extended
// vector, taken from a random permutation.
//
// A query's zeros are *missing*, not values: a ReLU output is full of them, and "the first of eight
// zeros" says nothing. They never win; a bin of nothing but zeros borrows the code of another bin,
// found by a fixed probe sequence (densification), and when all probes fail takes a fixed random
// code. A row is dense: each entry is a value, negative ones and zeros too, and nothing is missing.
// Source: Chen and Shrivastava 2018, "Densified winner take all hashing"; Yagnik et al. 2011.
// The public SLIDE code differs: it calls an all-zero bin position 0 when it is small, and packs
// codes of 3 bits in 2.
class Dwta final : public HashFamily {
 public:
  // `spec` is valid and has codes_per_table > 0.
  Dwta(const HashSpec& spec, int64_t dim);

  int64_t dim() const override { return dim_; }
  int64_t num_tables() const override { return num_tables_; }
  int64_t fingerprint_bits() const override { return codes_ * code_bits_; }
  void HashQueries(absl::Span<const float> hidden, int64_t count, Parallelism parallelism,
                   absl::Span<uint32_t> fingerprints) const override;
  void HashRows(absl::Span<const float> rows, absl::Span<const float> extras, int64_t count,
                Parallelism parallelism, absl::Span<uint32_t> fingerprints) const override;

 private:
  struct Scratch;

  void Hash(const HashInput& input, Parallelism parallelism, uint32_t* fingerprints) const;
  void HashGroup(const HashInput& input, int64_t first, int64_t lanes, Scratch& scratch,
                 uint32_t* fingerprints) const;
  // Writes scratch.winners from scratch.vectors.
  void FindWinners(Scratch& scratch) const;
  // The code of `bin`, whose own entries are all missing, for one vector.
  uint32_t BorrowedCode(const Scratch& scratch, int64_t bin, int64_t lane) const;

  const int64_t dim_;
  const int64_t codes_;
  const int64_t num_tables_;
  const int64_t bin_size_;
  const int64_t code_bits_;
  const uint64_t probe_key_;
  const uint64_t fallback_key_;
  int64_t bin_width_;  // coordinates of a bin: bin_size, or all when there are fewer
  std::vector<uint32_t> coordinates_;  // [codes * num_tables, bin_width]
};

}  // namespace dslide

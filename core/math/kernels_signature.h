// Kernels that compare signatures, some bits of a row's hash codes each. A word holds an id in its
// lowest `id_bits`, 1 to 32 of them, and a signature in the others.
//
// As in core/math/kernels.h: the instruction set is chosen at run time, results are equal on all.

#pragma once

#include <cstdint>

namespace dslide {

// Takes ids and signatures apart: writes to `ids` those in whose signatures at least `bound` bits
// are those of the signature in `query`, and to `equal` how many are, in their order. Returns how
// many ids that are.
//   words : [n]; ids, equal : room for n; what is behind those written is undefined.
int64_t ReadNear(const uint64_t* words, int64_t n, uint64_t query, int id_bits, uint8_t bound,
                 uint32_t* ids, uint8_t* equal);

// How many of `counts` ([n]) are `bound` or more.
int64_t CountAtLeast(const uint8_t* counts, int64_t n, uint8_t bound);

}  // namespace dslide

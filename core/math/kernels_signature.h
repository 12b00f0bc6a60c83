// Kernels that compare signatures, 32 bits each of a row's hash codes.
//
// As in core/math/kernels.h: the instruction set is chosen at run time, results are equal on all.

#pragma once

#include <cstdint>

namespace dslide {

// Writes to equal[i] how many of the 32 bits of signatures[i] are those of `query`.
//   signatures : [n]; equal : [n].
void CountEqualBits(const uint32_t* signatures, int64_t n, uint32_t query, uint16_t* equal);

// How many of `counts` ([n]) are `bound` or more.
int64_t CountAtLeast(const uint16_t* counts, int64_t n, uint16_t bound);

}  // namespace dslide

// Kernels that compare signatures, 32 bits each of a row's hash codes.
//
// As in core/math/kernels.h: the instruction set is chosen at run time, results are equal on all.

#pragma once

#include <cstdint>

namespace dslide {

// Takes pairs of an id and a signature apart, and writes to equal[i] how many of the 32 bits of the
// i-th signature are those of `query`.
//   pairs : [n, 2]; ids : [n]; equal : [n].
void ReadSignatures(const uint32_t* pairs, int64_t n, uint32_t query, uint32_t* ids,
                    uint8_t* equal);

// How many of `counts` ([n]) are `bound` or more.
int64_t CountAtLeast(const uint8_t* counts, int64_t n, uint8_t bound);

}  // namespace dslide

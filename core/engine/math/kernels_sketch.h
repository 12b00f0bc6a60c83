// Kernels that compare hash codes: sketches, which are some bits of them, and all of them. A word
// with a sketch holds an id in its lowest `id_bits`, 1 to 32 of them, and the sketch in the
// others.
//
// As in core/engine/math/kernels.h: the instruction set is chosen at run time, results are equal on
// all.

#pragma once

#include <bit>
#include <cstdint>

namespace dslide {

// Takes ids and sketches apart: writes to `ids` those in whose sketches at least `bound` bits
// are those of the sketch in `query`, and to `equal` how many are, in their order. Returns how
// many ids that are.
//   words : [n]; ids, equal : room for n; what is behind those written is undefined.
int64_t ReadNear(const uint64_t* words, int64_t n, uint64_t query, int id_bits, uint8_t bound,
                 uint32_t* ids, uint8_t* equal);

// How many of `counts` ([n]) are `bound` or more.
int64_t CountAtLeast(const uint8_t* counts, int64_t n, uint8_t bound);
int64_t CountAtLeast(const uint16_t* counts, int64_t n, uint16_t bound);

// The codes of many vectors: word w of vector i is words[w * stride + i].
struct CodeColumns {
  const uint64_t* words;
  int64_t n;                 // vectors, at most stride
  int64_t stride;            // words of a column
  int64_t words_per_vector;  // columns
};
// How codes lie in a word, and how many there are in all words: at most 65,535.
struct CodeShape {
  int64_t num_codes;
  int64_t bits_per_code;
  uint64_t lowest_bits;  // of the codes in a word
};
// How many codes differ in a word of which these bits do.
inline int64_t DifferentCodes(uint64_t different, const CodeShape& shape) {
  uint64_t any = different;  // at a code's lowest bit: whether any of its bits differs
  for (int64_t b = 1; b < shape.bits_per_code; ++b) any |= different >> b;
  return std::popcount(any & shape.lowest_bits);
}

// Writes to equal[i] how many codes of the i-th vector are those of `query`. Bits that are of no
// code are equal in all of them.
//   query : [words_per_vector]; equal : [n].
void CountEqualCodes(const CodeColumns& columns, const CodeShape& shape, const uint64_t* query,
                     uint16_t* equal);

}  // namespace dslide

// Locality-sensitive hash functions: vectors with a large inner product share fingerprints often.
//
// A *code* is one elementary hash; a *fingerprint* packs the K codes of one table into an integer,
// with ceil(log2(radix)) bits a code: the bucket address. Conventions: matrices are row-major,
// [rows, cols], compact.
//
// Rows and queries are different arguments, because the row is extended by its bias and by the
// norm-completing coordinate and the query by the constants 1 and 0:
//   row   [w - mean, bias - mean bias, norm coordinate]
//   query [h,        1,                0              ]
// so that <query, row> = <h, w> + bias up to one constant of the query.
// Source: Charikar 2002 (SimHash); Yu et al. 2016, arXiv:1610.09072 (structured orthogonal
// projections); Chen and Shrivastava 2018 (DWTA); Shrivastava and Li 2014 and Neyshabur and Srebro
// 2015 (inner products by an extra coordinate).

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/spec/hash_spec.h"

namespace dslide {

// Immutable and thread-safe. Equal (spec, dim) give equal fingerprints, bit for bit, on every CPU
// and in every language: only additions and comparisons in a stated order are used.
class HashFamily {
 public:
  virtual ~HashFamily() = default;

  // Makes the family that `spec` names for vectors of `dim` floats.
  // Errors: InvalidArgument when the spec is invalid, codes_per_table is 0 or dim is outside [1,
  // 65536].
  static absl::StatusOr<std::unique_ptr<HashFamily>> Create(const HashSpec& spec, int64_t dim);

  virtual int64_t dim() const = 0;
  virtual int64_t num_tables() const = 0;
  // Bits of a fingerprint: fingerprints are in [0, 2^fingerprint_bits()). At most 24.
  virtual int64_t fingerprint_bits() const = 0;

  // Hashes `count` queries.
  //   hidden       : [count, dim]
  //   fingerprints : [count, num_tables], written.
  // An all-zero query is hashed like any other (its constant 1 is not zero).
  virtual void HashQueries(absl::Span<const float> hidden, int64_t count, Parallelism parallelism,
                           absl::Span<uint32_t> fingerprints) const = 0;

  // Hashes `count` rows.
  //   rows         : [count, dim], already centred when the spec says so
  //   extras       : [count, 2]: centred bias, norm coordinate
  //   fingerprints : [count, num_tables], written.
  virtual void HashRows(absl::Span<const float> rows, absl::Span<const float> extras, int64_t count,
                        Parallelism parallelism, absl::Span<uint32_t> fingerprints) const = 0;
};

}  // namespace dslide

#include "core/engine/lsh/hash_family.h"

#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/engine/lsh/dwta.h"
#include "core/engine/lsh/simhash.h"

namespace dslide {
namespace {

constexpr int64_t kMaxDim = 65536;

}  // namespace

absl::StatusOr<std::unique_ptr<HashFamily>> HashFamily::Create(const HashSpec& spec, int64_t dim) {
  RETURN_IF_ERROR(spec.Validate());
  if (spec.codes_per_table == 0 || spec.num_tables == 0) {
    return absl::InvalidArgumentError(
        "hash.codes_per_table is 0 or hash.num_tables is 0: choose them with ResolveHashSpec "
        "before hashing");
  }
  if (dim < 1 || dim > kMaxDim) {
    return absl::InvalidArgumentError(
        absl::StrFormat("dim is %d, must be in [1, %d] to be hashed", dim, kMaxDim));
  }
  if (spec.family == HashFamilyKind::kDwta) return std::make_unique<Dwta>(spec, dim);
  return std::make_unique<SimHash>(spec, dim);
}

}  // namespace dslide

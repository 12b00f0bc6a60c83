#include "core/spec/hash_spec.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_format.h"

namespace dslide {
namespace {

constexpr int64_t kMaxFingerprintBits = 24;
constexpr int64_t kMaxTables = 256;
// What the sweeps in docs/understand/hashing.md chose.
constexpr int64_t kTargetBucketRows = 320;
constexpr int64_t kMaxDefaultBits = 16;
constexpr int64_t kDefaultTables = 12;
// A build costs time in proportion to the rows, so larger tables are built less often.
constexpr int64_t kDefaultRebuildSteps = 50;
constexpr int64_t kRowsOfDefaultRebuild = 1'000'000;

absl::Status OutOfRange(const char* field, int64_t value, int64_t low, int64_t high) {
  return absl::InvalidArgumentError(
      absl::StrFormat("hash.%s is %d, must be in [%d, %d]", field, value, low, high));
}

absl::Status CheckRange(const char* field, int64_t value, int64_t low, int64_t high) {
  return value < low || value > high ? OutOfRange(field, value, low, high) : absl::OkStatus();
}

int64_t BitsPerCode(HashFamilyKind family, int64_t bin_size) {
  return family == HashFamilyKind::kDwta ? std::bit_width(static_cast<uint64_t>(bin_size)) - 1 : 1;
}

// So many codes that a bucket would hold about kTargetBucketRows rows, if they were spread evenly.
int64_t DefaultCodes(HashFamilyKind family, int64_t rows, int64_t bin_size) {
  const double wanted_buckets =
      static_cast<double>(std::max<int64_t>(rows, 1)) / static_cast<double>(kTargetBucketRows);
  const int64_t bits_per_code = BitsPerCode(family, bin_size);
  const int64_t codes =
      std::llround(std::log2(wanted_buckets) / static_cast<double>(bits_per_code));
  const int64_t smallest = std::max<int64_t>(1, 4 / bits_per_code);
  const int64_t largest = std::max<int64_t>(1, kMaxDefaultBits / bits_per_code);
  return std::clamp(codes, smallest, largest);
}

}  // namespace

absl::Status HashSpec::Validate() const {
  if (family != HashFamilyKind::kSimHash && family != HashFamilyKind::kDwta) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "hash.family is %d, must be simhash (0) or dwta (1)", static_cast<int>(family)));
  }
  if (bin_size < 2 || bin_size > 256 || !std::has_single_bit(static_cast<uint64_t>(bin_size))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("hash.bin_size is %d, must be a power of two in [2, 256]", bin_size));
  }
  const int64_t max_codes = kMaxFingerprintBits / BitsPerCode(family, bin_size);
  for (const absl::Status& status :
       {CheckRange("codes_per_table", codes_per_table, 0, max_codes),
        CheckRange("num_tables", num_tables, 0, kMaxTables),
        CheckRange("rebuild_every_steps", rebuild_every_steps, 0, 1'000'000),
        CheckRange("bucket_read_cap", bucket_read_cap, 1, 65536),
        CheckRange("ranked_per_active", ranked_per_active, 0, 1000),
        CheckRange("proposed_per_sample", proposed_per_sample, 0, 65536)}) {
    if (!status.ok()) return status;
  }
  const int64_t tables = num_tables == 0 ? kMaxTables : num_tables;
  if (searched_tables < 0 || searched_tables > tables) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "hash.searched_tables is %d, must be in [0, %d]: no more tables can be searched than "
        "hash.num_tables says; 0 searches all",
        searched_tables, tables));
  }
  if (!(norm_quantile > 0.0 && norm_quantile <= 1.0)) {  // also refuses NaN
    return absl::InvalidArgumentError(
        absl::StrFormat("hash.norm_quantile is %g, must be in (0, 1]", norm_quantile));
  }
  return absl::OkStatus();
}

int64_t SearchedTables(const HashSpec& spec) {
  return spec.searched_tables == 0 ? spec.num_tables
                                   : std::min(spec.searched_tables, spec.num_tables);
}

int64_t FingerprintBits(const HashSpec& spec) {
  return spec.codes_per_table * BitsPerCode(spec.family, spec.bin_size);
}

HashSpec ResolveHashSpec(const HashSpec& spec, int64_t rows) {
  HashSpec resolved = spec;
  if (spec.codes_per_table == 0) {
    resolved.codes_per_table = DefaultCodes(spec.family, rows, spec.bin_size);
  }
  if (spec.num_tables == 0) resolved.num_tables = kDefaultTables;
  if (spec.rebuild_every_steps == 0) {
    resolved.rebuild_every_steps =
        kDefaultRebuildSteps * std::max<int64_t>(1, rows / kRowsOfDefaultRebuild);
  }
  return resolved;
}

}  // namespace dslide

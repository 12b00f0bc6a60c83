#include "core/lsh/hash_tables.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace dslide {
namespace {

constexpr int64_t kMinAddressBits = 8;
// Fingerprints of more bits are stored in 32.
constexpr int64_t kNarrowBits = 16;

int64_t AddressBits(int64_t fingerprint_bits, int64_t num_rows) {
  const int64_t row_bits = std::bit_width(static_cast<uint64_t>(num_rows)) + 1;
  return std::min(fingerprint_bits, std::max(kMinAddressBits, row_bits));
}

// Addresses + 2: see SortTable.
int64_t OffsetsPerTable(int64_t address_bits) { return (int64_t{1} << address_bits) + 2; }

}  // namespace

void HashTables::Reset(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows) {
  num_tables_ = num_tables;
  num_rows_ = num_rows;
  fingerprint_bits_ = fingerprint_bits;
  const int64_t address_bits = AddressBits(fingerprint_bits, num_rows);
  shift_ = fingerprint_bits - address_bits;
  offsets_per_table_ = OffsetsPerTable(address_bits);
  const int64_t cells = num_tables * num_rows;
  const bool wide = fingerprint_bits > kNarrowBits;
  narrow_.assign(wide ? 0 : cells, 0);
  wide_.assign(wide ? cells : 0, 0);
  offsets_.assign(num_tables * offsets_per_table_, 0);
  ids_.assign(cells, LocalRow(0));
}

void HashTables::SetFingerprints(int64_t row, const uint32_t* fingerprints) {
  for (int64_t t = 0; t < num_tables_; ++t) {
    const int64_t at = t * num_rows_ + row;
    if (wide_.empty()) {
      narrow_[at] = static_cast<uint16_t>(fingerprints[t]);
    } else {
      wide_[at] = fingerprints[t];
    }
  }
}

// A stable counting sort by address. Counts go to places address + 2, their sums start the runs at
// address + 1, and placing the ids moves each start to its run's end, the next run's start: then
// the run of an address is [offsets[address], offsets[address + 1]) without a second array.
template <typename Print>
void HashTables::SortTable(int64_t table, const Print* fingerprints) {
  uint32_t* offsets = Offsets(table);
  LocalRow* ids = ids_.data() + table * num_rows_;
  std::fill_n(offsets, offsets_per_table_, 0u);
  for (int64_t row = 0; row < num_rows_; ++row) ++offsets[(fingerprints[row] >> shift_) + 2];
  for (int64_t i = 1; i < offsets_per_table_; ++i) offsets[i] += offsets[i - 1];
  for (int64_t row = 0; row < num_rows_; ++row) {
    ids[offsets[(fingerprints[row] >> shift_) + 1]++] = LocalRow(static_cast<uint32_t>(row));
  }
  if (shift_ == 0) return;
  // Few rows share an address here, so ordinary sorts of tiny runs are cheap.
  for (int64_t address = 0; address + 2 < offsets_per_table_; ++address) {
    std::sort(ids + offsets[address], ids + offsets[address + 1], [&](LocalRow a, LocalRow b) {
      const Print left = fingerprints[a.value()];
      const Print right = fingerprints[b.value()];
      return left != right ? left < right : a < b;
    });
  }
}

void HashTables::Sort(Parallelism parallelism) {
  ParallelFor(parallelism, num_tables_, /*grain=*/1, [&](int64_t table, int) {
    if (wide_.empty()) {
      SortTable(table, narrow_.data() + table * num_rows_);
    } else {
      SortTable(table, wide_.data() + table * num_rows_);
    }
  });
}

absl::Span<const LocalRow> HashTables::Bucket(int64_t table, uint32_t fingerprint) const {
  if (fingerprint >> fingerprint_bits_ != 0) return {};
  const uint32_t* offsets = Offsets(table) + (fingerprint >> shift_);
  const LocalRow* ids = ids_.data() + table * num_rows_;
  const LocalRow* begin = ids + offsets[0];
  const LocalRow* end = ids + offsets[1];
  if (shift_ != 0) {
    begin = std::partition_point(
        begin, end, [&](LocalRow row) { return Fingerprint(table, row.value()) < fingerprint; });
    end = std::partition_point(
        begin, end, [&](LocalRow row) { return Fingerprint(table, row.value()) == fingerprint; });
  }
  return {begin, static_cast<size_t>(end - begin)};
}

int64_t HashTables::BytesFor(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows) {
  const auto print_bytes =
      static_cast<int64_t>(fingerprint_bits > kNarrowBits ? sizeof(uint32_t) : sizeof(uint16_t));
  const auto id_bytes = static_cast<int64_t>(sizeof(LocalRow));
  const int64_t offsets = OffsetsPerTable(AddressBits(fingerprint_bits, num_rows));
  return num_tables *
         (num_rows * (id_bytes + print_bytes) + offsets * static_cast<int64_t>(sizeof(uint32_t)));
}

int64_t HashTables::memory_bytes() const {
  return static_cast<int64_t>(
      narrow_.capacity() * sizeof(uint16_t) + wide_.capacity() * sizeof(uint32_t) +
      offsets_.capacity() * sizeof(uint32_t) + ids_.capacity() * sizeof(LocalRow));
}

}  // namespace dslide

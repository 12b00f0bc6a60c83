#include "core/engine/lsh/hash_tables.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace dslide {
namespace {

constexpr int64_t kMinAddressBits = 8;

int64_t AddressBits(int64_t fingerprint_bits, int64_t num_rows) {
  const int64_t row_bits = std::bit_width(static_cast<uint64_t>(num_rows)) + 1;
  return std::min(fingerprint_bits, std::max(kMinAddressBits, row_bits));
}

// Addresses + 2: see SortTable.
int64_t OffsetsPerTable(int64_t address_bits) { return (int64_t{1} << address_bits) + 2; }

}  // namespace

void HashTables::Reset(const RowCodes& codes, int64_t num_tables, bool with_sketches) {
  num_tables_ = num_tables;
  num_rows_ = codes.num_rows();
  fingerprint_bits_ = codes.fingerprint_bits();
  const int64_t address_bits = AddressBits(fingerprint_bits_, num_rows_);
  shift_ = fingerprint_bits_ - address_bits;
  offsets_per_table_ = OffsetsPerTable(address_bits);
  offsets_.assign(num_tables_ * offsets_per_table_, 0);
  with_sketches_ = with_sketches;
  layout_ = SignedRowLayout(num_rows_);
  const int64_t entries = num_tables_ * num_rows_;
  rows_ = HugeVector<LocalRow>();
  signed_rows_ = HugeVector<uint64_t>();
  if (with_sketches) {
    signed_rows_.resize(entries);
  } else {
    rows_.resize(entries);
  }
}

// A stable counting sort by address. Counts go to places address + 2, their sums start the runs at
// address + 1, and placing the rows moves each start to its run's end, the next run's start: then
// the run of an address is [offsets[address], offsets[address + 1]) without a second array.
template <typename Entry>
void HashTables::SortTable(const RowCodes& codes, int64_t table, absl::Span<const uint8_t> left_out,
                           HugeVector<Entry>& entries) {
  uint32_t* offsets = Offsets(table);
  Entry* const sorted = entries.data() + table * num_rows_;
  const RowCodes::Column fingerprints = codes.Fingerprints(table);
  const RowCodes::SketchOf sketch = codes.SketchFor(table);
  const int64_t shift = shift_;
  const SignedRowLayout layout = layout_;
  const auto num_rows = static_cast<uint32_t>(num_rows_);
  const bool is_whole = left_out.empty();
  std::fill_n(offsets, offsets_per_table_, 0u);
  for (uint32_t row = 0; row < num_rows; ++row) {
    if (is_whole || left_out[row] == 0) ++offsets[(fingerprints[row] >> shift) + 2];
  }
  for (int64_t i = 1; i < offsets_per_table_; ++i) offsets[i] += offsets[i - 1];
  for (uint32_t row = 0; row < num_rows; ++row) {
    if (!is_whole && left_out[row] != 0) continue;
    const uint32_t place = offsets[(fingerprints[row] >> shift) + 1]++;
    if constexpr (std::is_same_v<Entry, uint64_t>) {
      sorted[place] = layout.Pack(LocalRow(row), sketch(codes.WordsOf(LocalRow(row))));
    } else {
      sorted[place] = LocalRow(row);
    }
  }
  if (shift != 0) SortRunsOfAddresses(codes, table, sorted);
}

// Few rows share an address where there are more fingerprints, so ordinary sorts of tiny runs are
// cheap.
template <typename Entry>
void HashTables::SortRunsOfAddresses(const RowCodes& codes, int64_t table, Entry* entries) const {
  const uint32_t* offsets = Offsets(table);
  const RowCodes::Column fingerprints = codes.Fingerprints(table);
  for (int64_t address = 0; address + 2 < offsets_per_table_; ++address) {
    std::sort(entries + offsets[address], entries + offsets[address + 1], [&](Entry a, Entry b) {
      const uint32_t left = fingerprints[RowOf(a).value()];
      const uint32_t right = fingerprints[RowOf(b).value()];
      return left != right ? left < right : RowOf(a) < RowOf(b);
    });
  }
}

void HashTables::Sort(const RowCodes& codes, Parallelism parallelism,
                      absl::Span<const uint8_t> left_out) {
  ParallelFor(parallelism, num_tables_, /*grain=*/1, [&](int64_t table, int) {
    if (with_sketches_) {
      SortTable(codes, table, left_out, signed_rows_);
    } else {
      SortTable(codes, table, left_out, rows_);
    }
  });
}

template <typename Entry>
BucketRows HashTables::Find(const RowCodes& codes, int64_t table, uint32_t fingerprint,
                            const HugeVector<Entry>& entries) const {
  const uint32_t* offsets = Offsets(table) + (fingerprint >> shift_);
  const Entry* const sorted = entries.data() + table * num_rows_;
  const Entry* begin = sorted + offsets[0];
  const Entry* end = sorted + offsets[1];
  if (shift_ != 0) {
    const RowCodes::Column own = codes.Fingerprints(table);
    begin = std::partition_point(
        begin, end, [&](Entry entry) { return own[RowOf(entry).value()] < fingerprint; });
    end = std::partition_point(
        begin, end, [&](Entry entry) { return own[RowOf(entry).value()] == fingerprint; });
  }
  const absl::Span<const Entry> found(begin, static_cast<size_t>(end - begin));
  if constexpr (std::is_same_v<Entry, uint64_t>) {
    return BucketRows(found, layout_);
  } else {
    return BucketRows(found);
  }
}

BucketRows HashTables::Bucket(const RowCodes& codes, int64_t table, uint32_t fingerprint) const {
  if (fingerprint >> fingerprint_bits_ != 0) return {};
  return with_sketches_ ? Find(codes, table, fingerprint, signed_rows_)
                        : Find(codes, table, fingerprint, rows_);
}

int64_t HashTables::BytesFor(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows,
                             bool with_sketches) {
  const int64_t row_bytes = with_sketches ? sizeof(uint64_t) : sizeof(LocalRow);
  const int64_t offsets = OffsetsPerTable(AddressBits(fingerprint_bits, num_rows));
  return num_tables * (num_rows * row_bytes + offsets * static_cast<int64_t>(sizeof(uint32_t)));
}

int64_t HashTables::memory_bytes() const {
  return static_cast<int64_t>(offsets_.capacity() * sizeof(uint32_t) +
                              rows_.capacity() * sizeof(LocalRow) +
                              signed_rows_.capacity() * sizeof(uint64_t));
}

}  // namespace dslide

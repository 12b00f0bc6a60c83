#include "core/lsh/hash_tables.h"

#include <algorithm>
#include <bit>

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

void HashTables::Reset(const RowCodes& codes, bool with_signatures) {
  num_tables_ = codes.num_tables();
  num_rows_ = codes.num_rows();
  fingerprint_bits_ = codes.fingerprint_bits();
  const int64_t address_bits = AddressBits(fingerprint_bits_, num_rows_);
  shift_ = fingerprint_bits_ - address_bits;
  offsets_per_table_ = OffsetsPerTable(address_bits);
  offsets_.assign(num_tables_ * offsets_per_table_, 0);
  ids_.assign(num_tables_ * num_rows_, LocalRow(0));
  signatures_.assign(with_signatures ? num_tables_ * num_rows_ : 0, 0);
}

// A stable counting sort by address. Counts go to places address + 2, their sums start the runs at
// address + 1, and placing the ids moves each start to its run's end, the next run's start: then
// the run of an address is [offsets[address], offsets[address + 1]) without a second array.
void HashTables::SortTable(const RowCodes& codes, int64_t table) {
  uint32_t* offsets = Offsets(table);
  LocalRow* ids = ids_.data() + table * num_rows_;
  // Where runs are sorted afterwards, their signatures are written then.
  const bool in_place = !signatures_.empty() && shift_ == 0;
  uint32_t* signatures = in_place ? signatures_.data() + table * num_rows_ : nullptr;
  const RowCodes::Column fingerprints = codes.Fingerprints(table);
  const RowCodes::SignatureOf signature = codes.SignatureFor(table);
  const int64_t shift = shift_;
  const auto num_rows = static_cast<uint32_t>(num_rows_);
  std::fill_n(offsets, offsets_per_table_, 0u);
  for (uint32_t row = 0; row < num_rows; ++row) ++offsets[(fingerprints[row] >> shift) + 2];
  for (int64_t i = 1; i < offsets_per_table_; ++i) offsets[i] += offsets[i - 1];
  for (uint32_t row = 0; row < num_rows; ++row) {
    const uint32_t place = offsets[(fingerprints[row] >> shift) + 1]++;
    ids[place] = LocalRow(row);
    if (signatures != nullptr) signatures[place] = signature(codes.WordsOf(LocalRow(row)));
  }
  if (shift != 0) SortRunsOfAddresses(codes, table);
}

// Few rows share an address where there are more fingerprints, so ordinary sorts of tiny runs are
// cheap.
void HashTables::SortRunsOfAddresses(const RowCodes& codes, int64_t table) {
  const uint32_t* offsets = Offsets(table);
  LocalRow* ids = ids_.data() + table * num_rows_;
  const RowCodes::Column fingerprints = codes.Fingerprints(table);
  for (int64_t address = 0; address + 2 < offsets_per_table_; ++address) {
    std::sort(ids + offsets[address], ids + offsets[address + 1], [&](LocalRow a, LocalRow b) {
      const uint32_t left = fingerprints[a.value()];
      const uint32_t right = fingerprints[b.value()];
      return left != right ? left < right : a < b;
    });
  }
  if (signatures_.empty()) return;
  const RowCodes::SignatureOf signature = codes.SignatureFor(table);
  uint32_t* signatures = signatures_.data() + table * num_rows_;
  for (int64_t i = 0; i < num_rows_; ++i) signatures[i] = signature(codes.WordsOf(ids[i]));
}

void HashTables::Sort(const RowCodes& codes, Parallelism parallelism) {
  ParallelFor(parallelism, num_tables_, /*grain=*/1,
              [&](int64_t table, int) { SortTable(codes, table); });
}

absl::Span<const LocalRow> HashTables::Bucket(const RowCodes& codes, int64_t table,
                                              uint32_t fingerprint) const {
  if (fingerprint >> fingerprint_bits_ != 0) return {};
  const uint32_t* offsets = Offsets(table) + (fingerprint >> shift_);
  const LocalRow* ids = ids_.data() + table * num_rows_;
  const LocalRow* begin = ids + offsets[0];
  const LocalRow* end = ids + offsets[1];
  if (shift_ != 0) {
    const RowCodes::Column own = codes.Fingerprints(table);
    begin = std::partition_point(begin, end,
                                 [&](LocalRow row) { return own[row.value()] < fingerprint; });
    end = std::partition_point(begin, end,
                               [&](LocalRow row) { return own[row.value()] == fingerprint; });
  }
  return {begin, static_cast<size_t>(end - begin)};
}

int64_t HashTables::BytesFor(int64_t num_tables, int64_t fingerprint_bits, int64_t num_rows,
                             bool with_signatures) {
  const int64_t row_bytes = sizeof(LocalRow) + (with_signatures ? sizeof(uint32_t) : 0);
  const int64_t offsets = OffsetsPerTable(AddressBits(fingerprint_bits, num_rows));
  return num_tables * (num_rows * row_bytes + offsets * static_cast<int64_t>(sizeof(uint32_t)));
}

int64_t HashTables::memory_bytes() const {
  return static_cast<int64_t>(offsets_.capacity() * sizeof(uint32_t) +
                              ids_.capacity() * sizeof(LocalRow) +
                              signatures_.capacity() * sizeof(uint32_t));
}

}  // namespace dslide

// The rows of one table of records that one shard holds, in memory: each absent, or a byte string
// of any length whose meaning is its owner's.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/base/prefetch.h"
#include "core/engine/rows/stored_rows.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Thread safety: that of StoredRows.
class RecordStore final : public StoredRows {
 public:
  // All rows absent. spec.role: one of records. rows: RowsOf() of them.
  RecordStore(const TableSpec& spec, ShardRows rows);
  // Which rows shard number `shard` of `map` holds. Of a replicated table all, and LocalRow(i) is
  // RowId(i).
  static ShardRows RowsOf(const TableSpec& spec, const SlotMap& map, ShardId shard);

  const std::string& table() const { return table_; }
  int64_t num_rows() const { return rows().num_rows(); }

  // Empty: absent. Valid until the row changes.
  absl::Span<const char> Record(LocalRow row) const {
    const char* const stored = records_[row.value()].get();
    return stored == nullptr ? absl::Span<const char>() : ContentOf(stored);
  }
  // Ask the memory for a row that Record() is to find soon: first for its place, and when that is
  // there for its first bytes.
  void PrefetchPlace(LocalRow row) const { PrefetchLine(&records_[row.value()]); }
  void PrefetchRecord(LocalRow row, int64_t bytes) const {
    PrefetchLines(records_[row.value()].get(), bytes);
  }
  // Replaces the record; an empty one erases it. Equal bytes are no change. record: less than 4
  // GiB, outside this store.
  void Put(LocalRow row, absl::Span<const char> record);
  void Erase(LocalRow row) { Put(row, {}); }

  int64_t present() const override { return present_.load(std::memory_order_relaxed); }
  // Of all rows, present or not, and of the records.
  int64_t memory_bytes() const override { return BytesFor(num_rows()) + stored_bytes(); }
  // Of the records alone.
  int64_t stored_bytes() const { return stored_bytes_.load(std::memory_order_relaxed); }
  // What a record of so many bytes, at least 1, adds to them: at most 31 more.
  static int64_t BytesOf(int64_t size);
  // memory_bytes() of a store with so many rows, all absent.
  static int64_t BytesFor(int64_t num_rows);

  int64_t record_bytes() const override { return 0; }
  absl::Span<const char> RecordSpan(LocalRow row) const override { return Record(row); }
  // Put(). Always OK: what records mean is checked by those who know.
  absl::Status SetRecord(LocalRow row, absl::Span<const char> record,
                         float magnitude_bound) override;

 private:
  using SizePrefix = uint32_t;
  static absl::Span<const char> ContentOf(const char* stored);

  const std::string table_;
  // [rows]; null: absent. The size and then the bytes, in one allocation.
  std::vector<std::unique_ptr<char[]>> records_;
  std::atomic<int64_t> present_ = 0;
  std::atomic<int64_t> stored_bytes_ = 0;
};

}  // namespace dslide

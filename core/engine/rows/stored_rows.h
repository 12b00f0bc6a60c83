// The rows of one table that one shard holds, as byte records: what images, checkpoints and digests
// need of them, whatever the records mean.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/rows/record_digest.h"
#include "core/engine/rows/row_changes.h"
#include "core/engine/rows/row_snapshot.h"
#include "core/partition/slot_map.h"

namespace dslide {

// Thread safety: different rows may be read and changed at the same time; one row only by one.
class StoredRows {
 public:
  virtual ~StoredRows() = default;

  const ShardRows& rows() const { return rows_; }
  // Bytes of every record that is there; 0 when each has its own length.
  virtual int64_t record_bytes() const = 0;
  // Rows that have a record.
  virtual int64_t present() const = 0;
  virtual int64_t memory_bytes() const = 0;

  // The record; empty: absent. Valid until the row changes.
  virtual absl::Span<const char> RecordSpan(LocalRow row) const = 0;
  // Overwrites a whole record; empty: the row becomes absent. `record` need not be aligned.
  // Errors: InvalidArgument when no such row of this table can be, for which the weights' bound is
  // `magnitude_bound`; nothing is changed then.
  virtual absl::Status SetRecord(LocalRow row, absl::Span<const char> record,
                                 float magnitude_bound) = 0;

  // Sum over all rows that are present of a 64-bit hash of (global row id, record): independent of
  // order and shards.
  uint64_t Digest(Parallelism parallelism) const;
  // What one record adds to it.
  uint64_t DigestOf(LocalRow row, absl::Span<const char> record) const {
    return record.empty() ? 0 : RecordDigest(rows_.ToGlobal(row), record);
  }

  // The records as they are now, to be taken one by one while these rows change. At most one at a
  // time: until EndSnapshot(). Neither while rows change.
  std::shared_ptr<RowSnapshot> StartSnapshot(int64_t max_copied_bytes);
  void EndSnapshot() { snapshot_ = nullptr; }
  bool has_snapshot() const { return snapshot_ != nullptr; }

  // Which records have changed since which cut. Neither while rows change.
  RowChanges& changes() { return changes_; }

 protected:
  explicit StoredRows(ShardRows rows) : rows_(std::move(rows)), changes_(rows_.num_rows()) {}

  // Before the record changes. record: as it is.
  void Preserve(LocalRow row, absl::Span<const char> record) {
    changes_.Mark(row);
    if (snapshot_ != nullptr) snapshot_->Preserve(row, record);
  }
  // A hint that the row will be changed soon.
  void PrefetchMark(LocalRow row) const { changes_.Prefetch(row); }

 private:
  const ShardRows rows_;
  RowChanges changes_;
  std::shared_ptr<RowSnapshot> snapshot_;  // null most of the time; shared with who writes it down
};

}  // namespace dslide

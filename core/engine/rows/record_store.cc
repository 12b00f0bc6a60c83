#include "core/engine/rows/record_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dslide {
namespace {

constexpr int64_t kPointerBytes = sizeof(std::unique_ptr<char[]>);

int64_t AllocatedFor(int64_t size) { return size == 0 ? 0 : RecordStore::BytesOf(size); }

}  // namespace

RecordStore::RecordStore(const TableSpec& spec, ShardRows rows)
    : StoredRows(std::move(rows)), table_(spec.name), records_(num_rows()) {}

ShardRows RecordStore::RowsOf(const TableSpec& spec, const SlotMap& map, ShardId shard) {
  return IsReplicated(spec.role) ? ShardRows::All(spec.rows) : ShardRows(map, shard, spec.rows);
}

absl::Span<const char> RecordStore::ContentOf(const char* stored) {
  SizePrefix size;
  std::memcpy(&size, stored, sizeof(size));
  return {stored + sizeof(size), size};
}

void RecordStore::Put(LocalRow row, absl::Span<const char> record) {
  const absl::Span<const char> before = Record(row);
  if (record == before) return;
  Preserve(row, before);
  present_.fetch_add(int{!record.empty()} - int{!before.empty()}, std::memory_order_relaxed);
  stored_bytes_.fetch_add(AllocatedFor(static_cast<int64_t>(record.size())) -
                              AllocatedFor(static_cast<int64_t>(before.size())),
                          std::memory_order_relaxed);
  std::unique_ptr<char[]>& stored = records_[row.value()];
  if (record.empty()) return stored.reset();
  const auto size = static_cast<SizePrefix>(record.size());
  stored.reset(new char[sizeof(size) + record.size()]);  // without writing zeros first
  std::memcpy(stored.get(), &size, sizeof(size));
  std::memcpy(stored.get() + sizeof(size), record.data(), record.size());
}

int64_t RecordStore::BytesFor(int64_t num_rows) { return num_rows * kPointerBytes; }

int64_t RecordStore::BytesOf(int64_t size) {
  // What glibc's malloc takes: a word of its own in front, whole 16 bytes, four words at least.
  constexpr int64_t kMallocWord = 8;
  constexpr int64_t kMallocUnit = 16;
  const int64_t bytes = size + static_cast<int64_t>(sizeof(SizePrefix)) + kMallocWord;
  return std::max<int64_t>(2 * kMallocUnit, (bytes + kMallocUnit - 1) / kMallocUnit * kMallocUnit);
}

absl::Status RecordStore::SetRecord(LocalRow row, absl::Span<const char> record,
                                    float /*magnitude_bound*/) {
  Put(row, record);
  return absl::OkStatus();
}

}  // namespace dslide

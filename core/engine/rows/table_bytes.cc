#include "core/engine/rows/table_bytes.h"

#include <algorithm>

#include "core/engine/lsh/hash_index.h"
#include "core/engine/rows/record_store.h"
#include "core/engine/rows/row_store.h"

namespace dslide {
namespace {

bool IsHashed(const TableSpec& spec) {
  return spec.role == TableRole::kHead && spec.head.max_active > 0;
}

}  // namespace

TableBytes TableBytesFor(const TableSpec& spec, int64_t shard_rows) {
  TableBytes bytes;
  if (IsRecordRole(spec.role)) {
    bytes.overhead = RecordStore::BytesFor(shard_rows);
    return bytes;
  }
  const RowLayout layout = RowLayout::Of(spec);
  bytes.weights = shard_rows * layout.used_weight_bytes();
  bytes.state = shard_rows * layout.used_state_bytes();
  bytes.overhead = RowStore::BytesFor(spec, shard_rows) - bytes.weights - bytes.state;
  if (spec.role == TableRole::kHead) bytes.dirty = shard_rows;
  if (!IsHashed(spec) || shard_rows == 0) return bytes;
  const IndexBytes index = HashIndex::BytesFor(ResolvedHead(spec).hash, shard_rows);
  bytes.hash_tables = index.tables;
  bytes.hash_codes = index.codes;
  return bytes;
}

int64_t WorkingBytesFor(const TableSpec& spec, int64_t shard_rows, int threads) {
  if (!IsHashed(spec)) return 0;
  constexpr int64_t kListBytes = 4;  // changed rows
  constexpr int64_t kMarkBytes = 2;  // of a thread's selections
  return shard_rows * (kListBytes + kMarkBytes * std::max(1, threads));
}

}  // namespace dslide

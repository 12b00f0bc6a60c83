// One table of a model on one shard.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/model/embedding_table.h"
#include "core/engine/model/head_hashes.h"
#include "core/engine/model/head_table.h"
#include "core/engine/rows/record_store.h"
#include "core/engine/rows/row_reader.h"
#include "core/engine/rows/row_store.h"
#include "core/spec/model_spec.h"

namespace dslide::shard {

// One table; which pointer is set follows its role. The rows are shared by a model and by what it
// was before other tables of it grew, which a snapshot may still be writing down.
struct ShardTable {
  TableSpec spec;
  std::shared_ptr<EmbeddingTable> embedding;
  std::shared_ptr<HeadTable> head;
  std::shared_ptr<RowStore> dense;
  std::shared_ptr<RecordStore> records;
  Step own_applied = Step(0);  // of dense rows and records, which do not count themselves

  // The rows of any table.
  StoredRows& stored();
  const StoredRows& stored() const { return const_cast<ShardTable*>(this)->stored(); }
  // Those of floats. Requires a table of no records.
  RowStore& store();
  const RowStore& store() const { return const_cast<ShardTable*>(this)->store(); }
  Step applied() const;
  // Of those, as they are now; averaged ones where the table keeps averages and they are wanted.
  RowReader Reader(bool averaged) const {
    return averaged ? RowReader::Averaged(store(), applied()) : RowReader(store());
  }
  // After rows were loaded: sets the count and rebuilds what depends on the rows.
  void ResetAfterLoad(Step applied, Parallelism parallelism);
  // The same with the hash tables that were saved; nothing for a table that has none.
  // Errors: DataLoss when they do not fit the table, which is then good for nothing.
  absl::Status RestoreAfterLoad(Step applied, std::optional<HeadHashes> hashes,
                                Parallelism parallelism);
  // Counts an update made row by row.
  void AdvanceStep(Parallelism parallelism);
  int64_t memory_bytes() const;
  // Head only: [batch, num_tables] fingerprints of the right width; none where every row is active.
  // Errors: InvalidArgument BAD_FINGERPRINT.
  absl::Status CheckFingerprints(absl::Span<const uint32_t> prints, int64_t batch) const;
};

}  // namespace dslide::shard

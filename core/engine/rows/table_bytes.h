// How much memory a table takes on a shard: the same functions that size the real thing.

#pragma once

#include <cstdint>

#include "core/spec/model_spec.h"

namespace dslide {

// Bytes of one table's part on one shard.
struct TableBytes {
  int64_t weights = 0;      // numbers of the rows, without rounding up
  int64_t state = 0;        // the optimizer's, of weights, biases and whole rows
  int64_t overhead = 0;     // biases, last steps, rounding up to 64 bytes; pointers to records
  int64_t hash_tables = 0;  // ids, fingerprints, bucket offsets; head with hashing only
  int64_t hash_codes = 0;   // packed codes, to rank candidates by
  int64_t dirty = 0;        // head: a byte a row

  int64_t rows() const { return weights + state + overhead; }
  // What the table's memory_bytes() says; of one of records, before there are any.
  int64_t total() const { return rows() + hash_tables + hash_codes + dirty; }
};

// spec.rows > 0 when it hashes. `shard_rows`: rows of the table on this shard.
TableBytes TableBytesFor(const TableSpec& spec, int64_t shard_rows);

// Working memory that follows the table's size: of a head with hashing, counters of equal codes (2
// bytes a row and thread), and the list of changed rows and the row norms of a build (4 bytes a row
// each). Step contexts follow the batch and are not in it.
int64_t WorkingBytesFor(const TableSpec& spec, int64_t shard_rows, int threads);

}  // namespace dslide

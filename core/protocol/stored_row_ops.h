// Rows as shards store them, to be carried from one cluster to another whole: weights, optimizer
// state and records of any length.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace dslide {

struct StoredRowBlock {
  std::vector<RowId> rows = {};      // strictly ascending
  std::vector<uint32_t> sizes = {};  // [rows], > 0: bytes of each record
  std::string records = {};          // one after the other; "" where only sizes were asked for
};

// Reads rows first .. end - 1.
struct ReadRowsCommand {
  std::string model;
  std::string table;
  int64_t first = 0;
  int64_t end = 0;
  bool sizes_only = false;
};

struct ReadRowsReply {
  StoredRowBlock block;
  int64_t next = 0;  // rows before it were looked at
  int64_t applied_steps = 0;
};

// A step operation: replaces rows.
struct LoadRowsOp {
  std::string table;
  StoredRowBlock block;
  int64_t applied_steps = 0;  // at least the last step of each row
  bool finish = false;        // builds what depends on the rows
};

struct LoadRowsReply {};

}  // namespace dslide

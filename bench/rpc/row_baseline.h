// The least that the rows of a gather or scatter cost where they lie: the same numbers of random
// rows out of a table of the same size, copied or added to by plain loops, without any call.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/system/huge_pages.h"

namespace dslide::bench {

// Thread safety: different lanes from different threads, as far as speed goes: they share the table
// without a lock, so additions to one row may be lost. Nobody looks at the values.
class RowBaseline {
 public:
  struct Options {
    int64_t table_rows = 0;
    int64_t dim = 0;
    std::vector<int64_t> sizes;  // rows of a request
    int lanes = 1;
  };
  explicit RowBaseline(const Options& options);

  // `rows` rows, a size of the options: from the table to messages, or from messages added to them.
  absl::Status Copy(int lane, int64_t rows);
  absl::Status Add(int lane, int64_t rows);

 private:
  struct Lane {
    std::map<int64_t, std::vector<std::vector<RowId>>> requests;  // by their rows
    size_t next = 0;
    HugeVector<float> message;  // as large as one, and used again like those of a shard
  };
  // Calls visit(record, message) for each row of the next request, with the place of both.
  template <typename Visit>
  void ForEachRow(Lane& lane, int64_t rows, const Visit& visit);

  const int64_t dim_;
  const int64_t record_floats_;  // a row and a line for what else a shard keeps of it
  HugeVector<float> table_;
  std::vector<Lane> lanes_;
};

}  // namespace dslide::bench

// Gathers and scatters of random rows by one client process against one shard.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/shard_client.h"
#include "client/cpp/wire_counters.h"
#include "core/protocol/commands.h"
#include "core/system/huge_pages.h"

namespace dslide::bench {

// In every lane one at a time, all over one connection. A lane numbers its scatters by itself, so
// it is what the shard calls a client.
//
// Thread safety: different lanes from different threads. Requests and the memory for answers are
// made before they are measured.
class BulkLoad {
 public:
  struct Options {
    std::string address;
    int64_t table_rows = 0;
    int64_t dim = 0;
    std::vector<int64_t> sizes;  // rows of a request
    int lanes = 1;
  };
  // Connects, and creates one table of f32 rows that learns by SGD.
  static absl::StatusOr<std::unique_ptr<BulkLoad>> Start(const Options& options);

  // One request of `rows` rows, a size of the options.
  absl::Status Gather(int lane, int64_t rows);
  absl::Status Scatter(int lane, ScatterMode mode, int64_t rows);
  // Reads rows back after a scatter that assigned them, and compares.
  absl::Status CheckRows();

 private:
  // Requests of one size. Several, so that not always the same rows are in the cache.
  struct Requests {
    std::vector<GatherCommand> gathers;
    std::vector<std::shared_ptr<ScatterCommand>> scatters;
    size_t next = 0;
  };

  struct Lane {
    ClientId id = {};
    uint64_t generation = 0;
    uint64_t sequence = 0;
    std::map<int64_t, Requests> requests;  // by their rows
    HugeVector<float> answer;              // as an array library would allocate it
  };

  explicit BulkLoad(const Options& options) : options_(options) {}
  absl::Status CreateTable();
  absl::Status Open(int number, Lane& lane);
  void MakeRequests(int number, int64_t rows, Lane& lane) const;
  absl::Status Send(Lane& lane, ScatterMode mode, const std::shared_ptr<ScatterCommand>& command);
  absl::Status CheckRowsOf(Lane& lane);

  const Options options_;
  WireCounters counters_;
  std::unique_ptr<ShardClient> client_;
  std::vector<Lane> lanes_;
};

}  // namespace dslide::bench

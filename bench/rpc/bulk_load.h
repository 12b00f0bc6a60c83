// Gathers and scatters of random rows, one at a time, by one client against one shard.

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
#include "core/model/commands.h"

namespace dslide::bench {

// Not thread-safe. Requests and the memory for answers are made before they are measured.
class BulkLoad {
 public:
  struct Options {
    std::string address;
    int64_t table_rows = 0;
    int64_t dim = 0;
    std::vector<int64_t> sizes;  // rows of a request
  };
  // Connects, and creates one table of f32 rows that learns by SGD.
  static absl::StatusOr<std::unique_ptr<BulkLoad>> Start(const Options& options);

  // One request of `rows` rows, a size of the options.
  absl::Status Gather(int64_t rows);
  absl::Status Scatter(ScatterMode mode, int64_t rows);
  // Reads rows back after a scatter that assigned them, and compares.
  absl::Status CheckRows();

 private:
  // Requests of one size. Several, so that not always the same rows are in the cache.
  struct Requests {
    std::vector<GatherCommand> gathers;
    std::vector<std::shared_ptr<ScatterCommand>> scatters;
    size_t next = 0;
  };

  explicit BulkLoad(const Options& options) : options_(options) {}
  absl::Status CreateTable();
  void MakeRequests(int64_t rows);
  absl::Status Send(ScatterMode mode, const std::shared_ptr<ScatterCommand>& command);

  const Options options_;
  WireCounters counters_;
  std::unique_ptr<ShardClient> client_;
  ClientId id_ = {};
  uint64_t generation_ = 0;
  uint64_t sequence_ = 0;
  std::map<int64_t, Requests> requests_;
  std::vector<float> answer_;
};

}  // namespace dslide::bench

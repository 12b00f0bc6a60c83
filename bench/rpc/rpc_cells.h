// What `dslide-bench rpc` measures: operations on requests of several sizes.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/common/spinners.h"
#include "bench/rpc/bulk_load.h"
#include "bench/rpc/row_baseline.h"
#include "bench/rpc/tcp_baseline.h"
#include "bench/rpc/transfer_meter.h"
#include "client/cpp/channel_factory.h"

namespace dslide::bench {

struct RpcOptions {
  std::vector<int64_t> sizes = {128, 1000, 10000, 100000};  // rows of a request
  std::vector<std::string> operations;                      // none: all
  bool figures_only = false;
  int64_t dim = 128;
  int64_t table_rows = 670091;
  int in_flight = 4;
  double seconds = 0.25;  // of one window
  double budget_seconds = 120;
  bool spin = true;
  std::string output = "text";

  int64_t LargestSize() const;
};

// One line of the result's table.
struct RpcCell {
  std::string operation;
  int64_t rows = 0;
  pid_t server = 0;  // 0: there is none
  TransferLanes lanes;
  std::vector<TransferWindow> windows;  // one a round

  int in_flight() const { return static_cast<int>(lanes.requests.size()); }
};

// The requests' other ends, borrowed but for the channel.
struct RpcPeers {
  BulkLoad* load;
  RowBaseline* row_baseline;
  TcpBaselineClient* tcp;
  std::shared_ptr<grpc::Channel> channel;  // to the baseline; shared with gRPC
  pid_t shard = 0;
  pid_t baseline = 0;
};

// Every operation there is, in the order of the table.
std::vector<std::string> OperationNames();

// How many requests of `rows` rows are in flight. Several where it is the rate that counts: one
// request alone has gaps, in which a processor waits for the other.
int LanesFor(const RpcOptions& options, int64_t rows);

// What to measure: a gather and a scatter of every size. The baselines and the other scatters say
// the same at every size of a kind, so they stand beside the largest of the small and the largest
// of all requests only. With `figures_only`, what the result's figures are made of.
std::vector<RpcCell> MakeCells(const RpcOptions& options, const RpcPeers& peers);

// Adds windows to the cells, round by round, until the budget is used.
//
//   spinners : null, or paused; while requests are small, they keep idle CPUs awake.
// Errors: those of a request.
absl::Status MeasureCells(const RpcOptions& options, Spinners* spinners,
                          std::vector<RpcCell>& cells);

}  // namespace dslide::bench

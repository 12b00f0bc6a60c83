#include "bench/rpc/rpc_cells.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "bench/common/round_budget.h"
#include "bench/rpc/stream_baseline.h"
#include "client/cli/console/terminal.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"

namespace dslide::bench {
namespace {

// Where a request becomes large.
constexpr int64_t kManyRows = 10'000;

// Whether a figure of the result is made of it.
bool IsInFigures(absl::string_view operation, int64_t rows, int64_t largest) {
  if (operation == "gather" && rows == 1000) return true;
  if (operation == "gather" || operation == "scatter_add") {
    return rows == 10'000 || rows == 100'000 || rows == largest;
  }
  return rows == largest && operation != "scatter_gradient" && operation != "scatter_assign";
}

class CellMaker {
 public:
  CellMaker(const RpcOptions& options, const RpcPeers& peers) : options_(options), peers_(peers) {
    for (const int64_t rows : options.sizes) {
      if (rows < kManyRows) largest_small_ = std::max(largest_small_, rows);
    }
  }

  std::vector<RpcCell> Make() {
    for (const int64_t rows : options_.sizes) {
      const bool largest = rows == options_.LargestSize();
      const bool detailed = largest || rows == largest_small_;
      if (detailed) AddStreams(rows);
      if (largest) AddRowsAlone(rows);
      AddCalls(rows, detailed);
    }
    return std::move(cells_);
  }

 private:
  // `request` gets the number of its lane.
  void Add(const std::string& operation, int64_t rows, pid_t server, int in_flight,
           const std::function<absl::Status(int)>& request) {
    const std::vector<std::string>& wanted = options_.operations;
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), operation) == wanted.end()) {
      return;
    }
    if (options_.figures_only && !IsInFigures(operation, rows, options_.LargestSize())) return;
    RpcCell& cell = cells_.emplace_back(
        RpcCell{operation, rows, server, {.requests = {}, .bytes = rows * options_.dim * 4}, {}});
    for (int lane = 0; lane < in_flight; ++lane) {
      cell.lanes.requests.push_back([request, lane] { return request(lane); });
    }
  }

  void AddStreams(int64_t rows) {
    const int64_t bytes = rows * options_.dim * 4;
    const auto add = [&](const char* operation, auto stream) {
      Add(operation, rows, peers_.baseline, LanesFor(options_, rows),
          [channel = peers_.channel, bytes, stream](int) { return stream(channel, bytes); });
    };
    Add("raw_tcp", rows, peers_.baseline, 1,
        [tcp = peers_.tcp, bytes](int) { return tcp->Fetch(bytes); });
    add("grpc_down", StreamDown);
    add("grpc_up", StreamUp);
    add("grpc_echo", StreamEcho);
  }

  void AddRowsAlone(int64_t rows) {
    const int lanes = LanesFor(options_, rows);
    RowBaseline* const alone = peers_.row_baseline;
    Add("rows_copied", rows, 0, lanes, [alone, rows](int lane) { return alone->Copy(lane, rows); });
    Add("rows_added", rows, 0, lanes, [alone, rows](int lane) { return alone->Add(lane, rows); });
  }

  void AddCalls(int64_t rows, bool detailed) {
    const int lanes = LanesFor(options_, rows);
    BulkLoad* const load = peers_.load;
    const auto add_scatter = [&](const char* operation, ScatterMode mode) {
      Add(operation, rows, peers_.shard, lanes,
          [load, rows, mode](int lane) { return load->Scatter(lane, mode, rows); });
    };
    Add("gather", rows, peers_.shard, lanes,
        [load, rows](int lane) { return load->Gather(lane, rows); });
    add_scatter("scatter_add", ScatterMode::kAdd);
    if (!detailed) return;
    add_scatter("scatter_gradient", ScatterMode::kGradient);
    add_scatter("scatter_assign", ScatterMode::kAssign);
  }

  const RpcOptions& options_;
  const RpcPeers& peers_;
  int64_t largest_small_ = 0;
  std::vector<RpcCell> cells_;
};

// Spinners, if any, run beside small requests only, with as long a rest after each: the next window
// may be one that they would harm.
absl::Status MeasureCell(const RpcOptions& options, Spinners* spinners, RpcCell& cell) {
  const bool spins = spinners != nullptr && cell.rows < kManyRows;
  if (spins) spinners->Resume();
  absl::StatusOr<TransferWindow> window = MeasureWindow(cell.lanes, options.seconds, cell.server);
  if (spins) {
    spinners->Pause();
    absl::SleepFor(absl::Seconds(options.seconds));
  }
  RETURN_IF_ERROR(window.status());
  cell.windows.push_back(*window);
  return absl::OkStatus();
}

}  // namespace

int64_t RpcOptions::LargestSize() const { return *std::max_element(sizes.begin(), sizes.end()); }

std::vector<std::string> OperationNames() {
  return {"raw_tcp",    "grpc_down", "grpc_up",     "grpc_echo",        "rows_copied",
          "rows_added", "gather",    "scatter_add", "scatter_gradient", "scatter_assign"};
}

int LanesFor(const RpcOptions& options, int64_t rows) {
  return rows >= kManyRows ? options.in_flight : 1;
}

std::vector<RpcCell> MakeCells(const RpcOptions& options, const RpcPeers& peers) {
  return CellMaker(options, peers).Make();
}

absl::Status MeasureCells(const RpcOptions& options, Spinners* spinners,
                          std::vector<RpcCell>& cells) {
  if (cells.empty()) return absl::OkStatus();
  RoundBudget budget(SteadyClock(), absl::Seconds(options.budget_seconds));
  while (budget.Next()) {
    double widest = 0;
    for (RpcCell& cell : cells) {
      RETURN_IF_ERROR(MeasureCell(options, spinners, cell));
      widest = std::max(widest, EstimateOver(cell.windows, &TransferWindow::gbps).Uncertainty());
    }
    cli::PrintNote(absl::StrFormat("round %d, %.0f of %.0f s: rates are sure within %.1f %%",
                                   budget.rounds(), absl::ToDoubleSeconds(budget.Used()),
                                   options.budget_seconds, 100 * widest));
  }
  return absl::OkStatus();
}

}  // namespace dslide::bench

#include "bench/rpc/rpc_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/common/machine.h"
#include "bench/common/statistics.h"
#include "client/cli/console/terminal.h"

namespace dslide::bench {
namespace {

using Json = nlohmann::ordered_json;

// Windows by operation, rows and requests in flight. Borrows the cells.
class Results {
 public:
  explicit Results(const std::vector<RpcCell>& cells) {
    for (const RpcCell& cell : cells) {
      found_[{cell.operation, cell.rows, cell.in_flight()}] = &cell.windows;
    }
  }

  template <typename Member>
  MedianEstimate Of(const std::string& operation, int64_t rows, int in_flight,
                    Member member) const {
    const std::vector<TransferWindow>* const windows = WindowsOf(operation, rows, in_flight);
    return windows == nullptr ? MedianEstimate() : EstimateOver(*windows, member);
  }

  // The processor time of `operation` over that of all `others` together. The median of the rounds'
  // ratios: what is measured next to each other sees the same mood of the machine.
  MedianEstimate CpuRatio(const std::string& operation, const std::vector<std::string>& others,
                          int64_t rows, int in_flight) const {
    const std::vector<TransferWindow>* const of = WindowsOf(operation, rows, in_flight);
    if (of == nullptr) return {};
    std::vector<double> to(of->size(), 0.0);
    for (const std::string& other : others) {
      const std::vector<TransferWindow>* const windows = WindowsOf(other, rows, in_flight);
      if (windows == nullptr) return {};
      for (size_t round = 0; round < to.size(); ++round) {
        to[round] += (*windows)[round].CpuSecondsPerGb();
      }
    }
    std::vector<double> ratios;
    for (size_t round = 0; round < to.size(); ++round) {
      if (to[round] > 0) ratios.push_back((*of)[round].CpuSecondsPerGb() / to[round]);
    }
    return EstimateMedian(std::move(ratios));
  }

 private:
  const std::vector<TransferWindow>* WindowsOf(const std::string& operation, int64_t rows,
                                               int in_flight) const {
    const auto found = found_.find({operation, rows, in_flight});
    return found == found_.end() ? nullptr : found->second;
  }

  std::map<std::tuple<std::string, int64_t, int>, const std::vector<TransferWindow>*> found_;
};

MedianEstimate Larger(const MedianEstimate& a, const MedianEstimate& b) {
  return a.median < b.median ? b : a;
}

// The figures that are published, by name.
std::vector<std::pair<std::string, MedianEstimate>> Figures(const RpcOptions& options,
                                                            const std::vector<RpcCell>& cells) {
  const Results results(cells);
  const int64_t largest = options.LargestSize();
  const int lanes = LanesFor(options, largest);
  const auto rate = [&](const char* name, int64_t rows) {
    return results.Of(name, rows, options.in_flight, &TransferWindow::gbps);
  };
  const auto cpu = [&](const char* name) {
    return results.Of(name, largest, lanes, &TransferWindow::CpuSecondsPerGb);
  };
  const auto ratio = [&](const char* of, const std::vector<std::string>& to) {
    return results.CpuRatio(of, to, largest, lanes);
  };
  return {
      {"gather_1k_p50_ms", results.Of("gather", 1000, 1, &TransferWindow::p50_ms)},
      {"gather_10k_gbps", rate("gather", 10000)},
      {"gather_100k_gbps", rate("gather", 100000)},
      {"scatter_10k_gbps", rate("scatter_add", 10000)},
      {"scatter_100k_gbps", rate("scatter_add", 100000)},
      {"raw_tcp_gbps", results.Of("raw_tcp", largest, 1, &TransferWindow::gbps)},
      {"cpu_s_per_gb", Larger(cpu("gather"), cpu("scatter_add"))},
      // A stream moves every byte once, an echo there and back; rows alone are moved by no call.
      {"stream_cpu_s_per_gb", Larger(cpu("grpc_down"), cpu("grpc_up"))},
      {"echo_cpu_s_per_gb", cpu("grpc_echo")},
      {"rows_copied_cpu_s_per_gb", cpu("rows_copied")},
      {"rows_added_cpu_s_per_gb", cpu("rows_added")},
      {"cpu_ratio_to_echo",
       Larger(ratio("gather", {"grpc_echo"}), ratio("scatter_add", {"grpc_echo"}))},
      {"gather_cpu_ratio", ratio("gather", {"grpc_down"})},
      {"scatter_cpu_ratio", ratio("scatter_add", {"grpc_up"})},
      {"gather_cpu_ratio_with_rows", ratio("gather", {"grpc_down", "rows_copied"})},
      {"scatter_cpu_ratio_with_rows", ratio("scatter_add", {"grpc_up", "rows_added"})},
  };
}

Json DescribeCell(const RpcOptions& options, const RpcCell& cell) {
  const auto median = [&](double TransferWindow::*field) {
    return EstimateOver(cell.windows, field).median;
  };
  const MedianEstimate rate = EstimateOver(cell.windows, &TransferWindow::gbps);
  Json line;
  line["operation"] = cell.operation;
  line["rows"] = cell.rows;
  line["in_flight"] = cell.in_flight();
  line["rows_per_second"] = 1e9 * rate.median / (4.0 * double(options.dim));
  line["gbps"] = rate.median;
  line["gbps_interval"] = {rate.low, rate.high};
  line["p50_ms"] = median(&TransferWindow::p50_ms);
  line["p99_ms"] = median(&TransferWindow::p99_ms);
  line["client_cpu_s_per_gb"] = median(&TransferWindow::client_cpu_s_per_gb);
  line["server_cpu_s_per_gb"] = median(&TransferWindow::server_cpu_s_per_gb);
  return line;
}

}  // namespace

Json DescribeCells(const RpcOptions& options, const std::vector<RpcCell>& cells,
                   double foreign_load) {
  Json json;
  Json intervals;
  for (const auto& [name, figure] : Figures(options, cells)) {
    json[name] = figure.median;
    intervals[name] = {figure.low, figure.high};
  }
  json["intervals"] = intervals;
  json["rounds"] = cells.empty() ? 0 : cells[0].windows.size();
  json["in_flight"] = options.in_flight;
  json["foreign_load"] = foreign_load;
  json["table"] = Json::array();
  for (const RpcCell& cell : cells) json["table"].push_back(DescribeCell(options, cell));
  json["dim"] = options.dim;
  json["table_rows"] = options.table_rows;
  json["spinners"] = options.spin;
  json.update(DescribeMachine());
  json["congestion_control"] = CongestionControl();
  return json;
}

void PrintCells(const RpcOptions& options, const Json& json) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& line : json["table"]) {
    const auto number = [&](const char* key, int digits) {
      return absl::StrFormat("%.*f", digits, line[key].get<double>());
    };
    lines.push_back({line["operation"], absl::StrCat(line["rows"].get<int64_t>()),
                     absl::StrCat(line["in_flight"].get<int>()), number("gbps", 2),
                     absl::StrFormat("%.2f-%.2f", line["gbps_interval"][0].get<double>(),
                                     line["gbps_interval"][1].get<double>()),
                     number("p50_ms", 3), number("p99_ms", 3), number("client_cpu_s_per_gb", 2),
                     number("server_cpu_s_per_gb", 2)});
  }
  cli::PrintLine(cli::FormatTable({"operation", "rows", "in flight", "GB/s", "95 %", "p50 ms",
                                   "p99 ms", "client s/GB", "server s/GB"},
                                  lines));
  const auto figure = [&](const char* name) { return json[name].get<double>(); };
  cli::PrintLine(absl::StrFormat(
      "\n%d rows of %d floats in the table; medians of %d rounds, 95 %%: where the median lies "
      "with that certainty; GB = 1e9 bytes of row values.\n"
      "CPU-seconds per GB at the largest size: gather %.2f x, scatter (add) %.2f x of a gRPC "
      "stream of the same bytes;\n"
      "%.2f x and %.2f x of that stream and the rows alone; the larger one %.2f x of an echo, "
      "there and back.",
      options.table_rows, options.dim, json["rounds"].get<int64_t>(), figure("gather_cpu_ratio"),
      figure("scatter_cpu_ratio"), figure("gather_cpu_ratio_with_rows"),
      figure("scatter_cpu_ratio_with_rows"), figure("cpu_ratio_to_echo")));
  cli::PrintLine(absl::StrFormat(
      "Other processes kept %.2f CPUs busy. %s. %s, congestion control %s, commit %s.",
      figure("foreign_load"),
      options.spin ? "Beside small requests, spinners of the lowest priority kept idle CPUs awake"
                   : "Idle CPUs could halt (--no-spin)",
      json["cpu"].get<std::string>(), json["congestion_control"].get<std::string>(),
      json["commit"].get<std::string>()));
}

}  // namespace dslide::bench

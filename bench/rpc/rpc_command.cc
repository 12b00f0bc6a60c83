#include "bench/rpc/rpc_command.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "bench/common/foreign_load.h"
#include "bench/common/machine.h"
#include "bench/common/spinners.h"
#include "bench/common/statistics.h"
#include "bench/rpc/bulk_load.h"
#include "bench/rpc/row_baseline.h"
#include "bench/rpc/stream_baseline.h"
#include "bench/rpc/tcp_baseline.h"
#include "bench/rpc/transfer_meter.h"
#include "client/cli/child_process.h"
#include "client/cli/terminal.h"
#include "client/cpp/channel_factory.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"

namespace dslide::bench {
namespace {

struct Options {
  std::vector<int64_t> sizes = {128, 1000, 10000, 100000};
  std::vector<std::string> operations;  // none: all
  int64_t dim = 128;
  int64_t table_rows = 670091;
  int in_flight = 4;
  double seconds = 0.25;
  int64_t min_repeats = 5;
  int64_t max_repeats = 15;
  bool spin = true;
  std::string output = "text";
};

std::vector<std::string> OperationNames() {
  return {"raw_tcp",    "grpc_down", "grpc_up",     "grpc_echo",        "rows_copied",
          "rows_added", "gather",    "scatter_add", "scatter_gradient", "scatter_assign"};
}

// Repetitions go on until every rate of the table is within this.
constexpr double kWantedSpread = 0.1;

// The processes on the other side.
struct Peers {
  std::string log_dir;
  std::unique_ptr<cli::ChildProcess> shard;
  std::unique_ptr<cli::ChildProcess> baseline;
  std::string shard_address;
  std::string baseline_address;
  int tcp_port = 0;

  ~Peers() {
    if (log_dir.empty()) return;
    shard = nullptr;
    baseline = nullptr;
    std::error_code ignored;
    std::filesystem::remove_all(log_dir, ignored);
  }
};

absl::StatusOr<std::string> WaitForValue(cli::ChildProcess& child, const std::string& key) {
  for (int tries = 0; tries < 500; ++tries) {
    std::string value = cli::LastLogValue(child.log_path(), key);
    if (!value.empty()) return value;
    if (!child.Running()) return absl::UnavailableError(child.Obituary());
    absl::SleepFor(absl::Milliseconds(20));
  }
  return absl::DeadlineExceededError(absl::StrCat(child.name(), " did not start within 10 s"));
}

absl::Status StartPeers(Peers& peers) {
  char directory[] = "/tmp/dslide-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) return absl::InternalError("cannot make a directory in /tmp");
  peers.log_dir = directory;
  const std::string programs = cli::ProgramDirectory();
  ASSIGN_OR_RETURN(peers.shard,
                   cli::ChildProcess::Start("shard", programs + "/dslide-shard",
                                            {"--listen", "127.0.0.1:0", "--coordinator", "",
                                             "--admin", "", "--shard-id", "0"},
                                            peers.log_dir + "/shard.log"));
  ASSIGN_OR_RETURN(peers.baseline,
                   cli::ChildProcess::Start("baseline", programs + "/dslide-bench",
                                            {"rpc-baseline"}, peers.log_dir + "/baseline.log"));
  ASSIGN_OR_RETURN(peers.shard_address, WaitForValue(*peers.shard, "address"));
  ASSIGN_OR_RETURN(peers.baseline_address, WaitForValue(*peers.baseline, "address"));
  ASSIGN_OR_RETURN(const std::string port, WaitForValue(*peers.baseline, "tcp_port"));
  peers.tcp_port = std::stoi(port);
  return absl::OkStatus();
}

// What moves this many rows is also measured with several requests in flight: then it is the rate
// that counts, and one request alone has gaps, in which a processor waits for the other.
constexpr int64_t kManyRows = 10'000;

// One line of the result.
struct Cell {
  std::string name;
  int64_t rows = 0;
  pid_t server = 0;
  TransferLanes lanes;
  std::vector<TransferWindow> windows;

  int in_flight() const { return static_cast<int>(lanes.requests.size()); }
};

int LanesFor(const Options& options, int64_t rows) {
  return rows >= kManyRows ? options.in_flight : 1;
}

// What is measured, and what beside it. Borrowed but for the channel.
struct Measured {
  BulkLoad* load;
  RowBaseline* row_baseline;
  TcpBaselineClient* tcp;
  std::shared_ptr<grpc::Channel> channel;  // to the baseline; shared with gRPC
};

std::vector<Cell> MakeCells(const Options& options, const Peers& peers, const Measured& measured) {
  std::vector<Cell> cells;
  const pid_t shard = peers.shard->pid();
  const pid_t baseline = peers.baseline->pid();
  for (const int64_t rows : options.sizes) {
    const int64_t bytes = rows * options.dim * 4;
    // `request` gets the number of its lane.
    const auto add = [&](const char* name, pid_t server, int in_flight,
                         const std::function<absl::Status(int)>& request) {
      const std::vector<std::string>& wanted = options.operations;
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) return;
      Cell& cell =
          cells.emplace_back(Cell{name, rows, server, {.requests = {}, .bytes = bytes}, {}});
      for (int lane = 0; lane < in_flight; ++lane) {
        cell.lanes.requests.push_back([request, lane] { return request(lane); });
      }
    };
    const auto scatter = [load = measured.load, rows](ScatterMode mode) {
      return [load, rows, mode](int lane) { return load->Scatter(lane, mode, rows); };
    };
    const auto stream = [channel = measured.channel, bytes](auto function) {
      return [channel, bytes, function](int) { return function(channel, bytes); };
    };
    add("raw_tcp", baseline, 1, [tcp = measured.tcp, bytes](int) { return tcp->Fetch(bytes); });
    for (const int in_flight : std::set<int>{1, LanesFor(options, rows)}) {
      add("grpc_down", baseline, in_flight, stream(StreamDown));
      add("grpc_up", baseline, in_flight, stream(StreamUp));
      add("grpc_echo", baseline, in_flight, stream(StreamEcho));
      add("rows_copied", 0, in_flight,
          [alone = measured.row_baseline, rows](int lane) { return alone->Copy(lane, rows); });
      add("rows_added", 0, in_flight,
          [alone = measured.row_baseline, rows](int lane) { return alone->Add(lane, rows); });
      add("gather", shard, in_flight,
          [load = measured.load, rows](int lane) { return load->Gather(lane, rows); });
      add("scatter_add", shard, in_flight, scatter(ScatterMode::kAdd));
      add("scatter_gradient", shard, in_flight, scatter(ScatterMode::kGradient));
      add("scatter_assign", shard, in_flight, scatter(ScatterMode::kAssign));
    }
  }
  return cells;
}

// Every round measures every cell, so that a busy minute of the machine touches all of them.
// Spinners, if any, run during the windows only, with as long a rest before each.
absl::Status MeasureRounds(const Options& options, absl::string_view what, Spinners* spinners,
                           absl::Span<Cell* const> cells) {
  for (int64_t round = 1; !cells.empty(); ++round) {
    double widest = 0;
    for (Cell* const cell : cells) {
      if (spinners != nullptr) {
        absl::SleepFor(absl::Seconds(options.seconds));
        spinners->Resume();
      }
      ASSIGN_OR_RETURN(const TransferWindow window,
                       MeasureWindow(cell->lanes, options.seconds, cell->server));
      if (spinners != nullptr) spinners->Pause();
      cell->windows.push_back(window);
      widest = std::max(widest, Summarise(cell->windows).spread);
    }
    cli::PrintNote(absl::StrFormat("%s, round %d: largest spread of a rate %.0f %%", what, round,
                                   100 * widest));
    if (round >= options.max_repeats) break;
    if (round >= options.min_repeats && widest <= kWantedSpread) break;
  }
  return absl::OkStatus();
}

// Rates while idle CPUs may halt; the latencies of small requests while spinners keep them awake.
absl::Status Measure(const Options& options, Spinners* spinners, std::vector<Cell>& cells) {
  std::vector<Cell*> large;
  std::vector<Cell*> small;
  for (Cell& cell : cells) (cell.rows >= kManyRows ? large : small).push_back(&cell);
  if (spinners != nullptr) spinners->Pause();
  RETURN_IF_ERROR(MeasureRounds(options, "large requests", nullptr, large));
  return MeasureRounds(options, "small requests", spinners, small);
}

double CpuOf(const TransferWindow& window) {
  return window.client_cpu_s_per_gb + window.server_cpu_s_per_gb;
}

// Results by name, rows and requests in flight; of what was not measured, zeros.
class Results {
 public:
  explicit Results(const std::vector<Cell>& cells) {
    for (const Cell& cell : cells) found_[{cell.name, cell.rows, cell.in_flight()}] = &cell.windows;
  }
  TransferWindow Of(const std::string& name, int64_t rows, int in_flight) const {
    const std::vector<TransferWindow>* const windows = WindowsOf(name, rows, in_flight);
    return windows == nullptr ? TransferWindow() : Summarise(*windows).median;
  }

  // The processor time of `name` over that of all `others` together. The median of the rounds'
  // ratios: what is measured next to each other sees the same mood of the machine.
  double CpuRatio(const std::string& name, const std::vector<std::string>& others, int64_t rows,
                  int in_flight) const {
    const std::vector<TransferWindow>* const of = WindowsOf(name, rows, in_flight);
    if (of == nullptr) return 0;
    std::vector<double> to(of->size(), 0.0);
    for (const std::string& other : others) {
      const std::vector<TransferWindow>* const windows = WindowsOf(other, rows, in_flight);
      if (windows == nullptr) return 0;
      for (size_t round = 0; round < to.size(); ++round) to[round] += CpuOf((*windows)[round]);
    }
    std::vector<double> ratios;
    for (size_t round = 0; round < to.size(); ++round) {
      if (to[round] > 0) ratios.push_back(CpuOf((*of)[round]) / to[round]);
    }
    return ratios.empty() ? 0 : Median(ratios);
  }

 private:
  const std::vector<TransferWindow>* WindowsOf(const std::string& name, int64_t rows,
                                               int in_flight) const {
    const auto found = found_.find({name, rows, in_flight});
    return found == found_.end() ? nullptr : found->second;
  }

  // Borrowed from the cells.
  std::map<std::tuple<std::string, int64_t, int>, const std::vector<TransferWindow>*> found_;
};

nlohmann::ordered_json ToJson(const Options& options, const std::vector<Cell>& cells,
                              double foreign_load) {
  const Results results(cells);
  const int64_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
  const int lanes = LanesFor(options, largest);
  const auto cpu = [&](const char* name) { return CpuOf(results.Of(name, largest, lanes)); };
  const auto ratio = [&](const char* of, const std::vector<std::string>& to) {
    return results.CpuRatio(of, to, largest, lanes);
  };
  const auto rate = [&](const char* name, int64_t rows) {
    return results.Of(name, rows, options.in_flight).gbps;
  };
  nlohmann::ordered_json json;
  json["gather_1k_p50_ms"] = results.Of("gather", 1000, 1).p50_ms;
  json["gather_10k_gbps"] = rate("gather", 10000);
  json["gather_100k_gbps"] = rate("gather", 100000);
  json["scatter_10k_gbps"] = rate("scatter_add", 10000);
  json["scatter_100k_gbps"] = rate("scatter_add", 100000);
  json["in_flight"] = options.in_flight;
  json["raw_tcp_gbps"] = results.Of("raw_tcp", largest, 1).gbps;
  json["cpu_s_per_gb"] = std::max(cpu("gather"), cpu("scatter_add"));
  json["foreign_load"] = foreign_load;
  // A stream moves every byte once, an echo there and back; rows alone are not moved by a call.
  json["stream_cpu_s_per_gb"] = std::max(cpu("grpc_down"), cpu("grpc_up"));
  json["echo_cpu_s_per_gb"] = cpu("grpc_echo");
  json["rows_copied_cpu_s_per_gb"] = cpu("rows_copied");
  json["rows_added_cpu_s_per_gb"] = cpu("rows_added");
  json["cpu_ratio_to_echo"] =
      std::max(ratio("gather", {"grpc_echo"}), ratio("scatter_add", {"grpc_echo"}));
  json["gather_cpu_ratio"] = ratio("gather", {"grpc_down"});
  json["scatter_cpu_ratio"] = ratio("scatter_add", {"grpc_up"});
  json["gather_cpu_ratio_with_rows"] = ratio("gather", {"grpc_down", "rows_copied"});
  json["scatter_cpu_ratio_with_rows"] = ratio("scatter_add", {"grpc_up", "rows_added"});
  json["table"] = nlohmann::ordered_json::array();
  for (const Cell& cell : cells) {
    const TransferResult result = Summarise(cell.windows);
    const TransferWindow& median = result.median;
    nlohmann::ordered_json line;
    line["operation"] = cell.name;
    line["rows"] = cell.rows;
    line["in_flight"] = cell.in_flight();
    line["rows_per_second"] = 1e9 * median.gbps / (4.0 * double(options.dim));
    line["rounds"] = cell.windows.size();
    line["gbps"] = median.gbps;
    line["gbps_spread"] = result.spread;
    line["p50_ms"] = median.p50_ms;
    line["p99_ms"] = median.p99_ms;
    line["client_cpu_s_per_gb"] = median.client_cpu_s_per_gb;
    line["server_cpu_s_per_gb"] = median.server_cpu_s_per_gb;
    json["table"].push_back(line);
  }
  json["dim"] = options.dim;
  json["table_rows"] = options.table_rows;
  json["spinners"] = options.spin;
  json.update(DescribeMachine());
  json["congestion_control"] = CongestionControl();
  return json;
}

void PrintText(const Options& options, const nlohmann::ordered_json& json) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& line : json["table"]) {
    const auto number = [&](const char* key, int digits) {
      return absl::StrFormat("%.*f", digits, line[key].get<double>());
    };
    lines.push_back({line["operation"], absl::StrCat(line["rows"].get<int64_t>()),
                     absl::StrCat(line["in_flight"].get<int>()), number("gbps", 2),
                     number("gbps_spread", 2), number("p50_ms", 3), number("p99_ms", 3),
                     number("client_cpu_s_per_gb", 2), number("server_cpu_s_per_gb", 2)});
  }
  cli::PrintLine(cli::FormatTable({"operation", "rows", "in flight", "GB/s", "spread", "p50 ms",
                                   "p99 ms", "client s/GB", "server s/GB"},
                                  lines));
  cli::PrintLine(absl::StrFormat(
      "\n%d rows of %d floats in the table; medians of up to %d rounds of %.2f s; GB = 1e9 bytes "
      "of "
      "row values.\nCPU-seconds per GB at the largest size: gather %.2f x, scatter (add) %.2f x of "
      "a "
      "gRPC stream of the same bytes;\n%.2f x and %.2f x of that stream and the rows alone; the "
      "larger one %.2f x of an echo, there and back.\nOther processes kept %.2f CPUs busy. %s. %s, "
      "congestion "
      "control %s, commit %s.",
      options.table_rows, options.dim, options.max_repeats, options.seconds,
      json["gather_cpu_ratio"].get<double>(), json["scatter_cpu_ratio"].get<double>(),
      json["gather_cpu_ratio_with_rows"].get<double>(),
      json["scatter_cpu_ratio_with_rows"].get<double>(), json["cpu_ratio_to_echo"].get<double>(),
      json["foreign_load"].get<double>(),
      options.spin ? "Beside small requests, spinners of the lowest priority kept idle CPUs awake"
                   : "Idle CPUs could halt (--no-spin)",
      json["cpu"].get<std::string>(), json["congestion_control"].get<std::string>(),
      json["commit"].get<std::string>()));
}

absl::Status Run(const Options& options) {
  for (const int64_t rows : options.sizes) {
    if (rows >= 1 && rows <= options.table_rows / 2 && rows <= 1 << 20) continue;
    return absl::InvalidArgumentError(absl::StrCat("--rows-per-request ", rows,
                                                   " must be from 1 to half of --table-rows (",
                                                   options.table_rows, ") and at most 1048576"));
  }
  // Before gRPC has threads: a fork takes only the calling one along.
  std::unique_ptr<Spinners> spinners;
  if (options.spin) spinners = std::make_unique<Spinners>();
  Peers peers;
  RETURN_IF_ERROR(StartPeers(peers));
  ASSIGN_OR_RETURN(std::unique_ptr<BulkLoad> load,
                   BulkLoad::Start({.address = peers.shard_address,
                                    .table_rows = options.table_rows,
                                    .dim = options.dim,
                                    .sizes = options.sizes,
                                    .lanes = options.in_flight}));
  RETURN_IF_ERROR(load->CheckRows());
  ASSIGN_OR_RETURN(std::unique_ptr<TcpBaselineClient> tcp,
                   TcpBaselineClient::Connect(peers.tcp_port));
  ASSIGN_OR_RETURN(auto channel, NetworkChannels({})(peers.baseline_address));
  RowBaseline row_baseline({.table_rows = options.table_rows,
                            .dim = options.dim,
                            .sizes = options.sizes,
                            .lanes = options.in_flight});
  std::vector<Cell> cells = MakeCells(
      options, peers,
      {.load = load.get(), .row_baseline = &row_baseline, .tcp = tcp.get(), .channel = channel});
  std::vector<pid_t> own = {peers.shard->pid(), peers.baseline->pid()};
  if (spinners != nullptr) own.insert(own.end(), spinners->pids().begin(), spinners->pids().end());
  const ForeignLoad foreign(own);
  RETURN_IF_ERROR(Measure(options, spinners.get(), cells));
  const nlohmann::ordered_json json = ToJson(options, cells, foreign.Processors());
  if (options.output == "json") {
    cli::PrintLine(json.dump());
  } else {
    PrintText(options, json);
  }
  return absl::OkStatus();
}

// The other side of the baselines, until this process's parent ends it.
absl::Status ServeBaselines() {
  ASSIGN_OR_RETURN(const std::unique_ptr<TcpBaselineServer> tcp, TcpBaselineServer::Start());
  StreamBaselineService service;
  grpc::ServerBuilder builder;
  SetBaselineServerArguments(builder);
  builder.RegisterCallbackGenericService(&service);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) return absl::UnavailableError("cannot listen on 127.0.0.1");
  LogInfo("serving",
          {{"address", absl::StrCat("127.0.0.1:", port)}, {"tcp_port", absl::StrCat(tcp->port())}});
  pause();
  return absl::OkStatus();
}

void Report(const absl::Status& status, int* exit_code) {
  if (status.ok()) return;
  cli::PrintNote(absl::StrCat("dslide bench rpc: ", status.message()));
  *exit_code = absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace

void AddRpcCommand(CliCommand app, int* exit_code) {
  auto options = std::make_shared<Options>();  // shared with the callback
  const CliCommand rpc =
      app.AddSubcommand("rpc", "Measures Gather and Scatter between one client and one shard");
  rpc.Add("--rows-per-request", options->sizes, "Sizes of the requests, in rows")
      .Delimiter(',')
      .ShowDefault();
  rpc.Add("--operations", options->operations,
          "Only these of the table's operations (default: all)")
      .Delimiter(',')
      .OneOf(OperationNames());
  rpc.Add("--dim", options->dim, "Floats of a row").Range(1, 65536).ShowDefault();
  rpc.Add("--table-rows", options->table_rows, "Rows of the table")
      .Range(int64_t{2}, int64_t{1} << 31)
      .ShowDefault();
  rpc.Add("--in-flight", options->in_flight,
          "Requests of 10,000 rows and more that are also measured at one time")
      .Range(1, 16)
      .ShowDefault();
  rpc.Add("--seconds", options->seconds, "Length of one measurement")
      .Range(0.01, 60.0)
      .ShowDefault();
  rpc.Add("--min-rounds", options->min_repeats, "Measurements of each kind at least")
      .Range(1, 1000)
      .ShowDefault();
  rpc.Add("--max-rounds", options->max_repeats, "And at most, when they disagree by more than 5 %")
      .Range(1, 1000)
      .ShowDefault();
  rpc.AddSwitch("!--no-spin", options->spin, "Let idle CPUs halt");
  rpc.Add("-o,--output", options->output, "Form of the result: text or json")
      .OneOf({"text", "json"});
  rpc.OnChosen([options, exit_code] { Report(Run(*options), exit_code); });
  const CliCommand baseline = app.AddSubcommand("rpc-baseline", "The other side of the baselines");
  baseline.Hide();  // for the command above only
  baseline.OnChosen([exit_code] { Report(ServeBaselines(), exit_code); });
}

}  // namespace dslide::bench

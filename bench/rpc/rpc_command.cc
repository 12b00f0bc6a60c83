#include "bench/rpc/rpc_command.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/common/foreign_load.h"
#include "bench/common/spinners.h"
#include "bench/rpc/bulk_load.h"
#include "bench/rpc/row_baseline.h"
#include "bench/rpc/rpc_cells.h"
#include "bench/rpc/rpc_report.h"
#include "bench/rpc/stream_baseline.h"
#include "bench/rpc/tcp_baseline.h"
#include "client/cli/cluster/child_process.h"
#include "client/cli/console/terminal.h"
#include "client/cpp/channel_factory.h"
#include "core/base/status_macros.h"
#include "core/system/log.h"

namespace dslide::bench {
namespace {

// The processes on the other side.
struct Processes {
  std::string log_dir;
  std::unique_ptr<cli::ChildProcess> shard;
  std::unique_ptr<cli::ChildProcess> baseline;
  std::string shard_address;
  std::string baseline_address;
  int tcp_port = 0;

  ~Processes() {
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

absl::Status StartProcesses(Processes& processes) {
  char directory[] = "/tmp/dslide-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) return absl::InternalError("cannot make a directory in /tmp");
  processes.log_dir = directory;
  const std::string programs = cli::ProgramDirectory();
  ASSIGN_OR_RETURN(processes.shard,
                   cli::ChildProcess::Start("shard", programs + "/dslide-shard",
                                            {"--listen", "127.0.0.1:0", "--coordinator", "",
                                             "--admin", "", "--shard-id", "0"},
                                            processes.log_dir + "/shard.log"));
  ASSIGN_OR_RETURN(processes.baseline,
                   cli::ChildProcess::Start("baseline", programs + "/dslide-bench",
                                            {"rpc-baseline"}, processes.log_dir + "/baseline.log"));
  ASSIGN_OR_RETURN(processes.shard_address, WaitForValue(*processes.shard, "address"));
  ASSIGN_OR_RETURN(processes.baseline_address, WaitForValue(*processes.baseline, "address"));
  ASSIGN_OR_RETURN(const std::string port, WaitForValue(*processes.baseline, "tcp_port"));
  processes.tcp_port = std::stoi(port);
  return absl::OkStatus();
}

absl::Status Run(const RpcOptions& options) {
  for (const int64_t rows : options.sizes) {
    if (rows >= 1 && rows <= options.table_rows / 2 && rows <= 1 << 20) continue;
    return absl::InvalidArgumentError(absl::StrCat("--rows-per-request ", rows,
                                                   " must be from 1 to half of --table-rows (",
                                                   options.table_rows, ") and at most 1048576"));
  }
  // Before gRPC has threads: a fork takes only the calling one along.
  std::unique_ptr<Spinners> spinners;
  if (options.spin) {
    spinners = std::make_unique<Spinners>();
    spinners->Pause();
  }
  Processes processes;
  RETURN_IF_ERROR(StartProcesses(processes));
  ASSIGN_OR_RETURN(std::unique_ptr<BulkLoad> load,
                   BulkLoad::Start({.address = processes.shard_address,
                                    .table_rows = options.table_rows,
                                    .dim = options.dim,
                                    .sizes = options.sizes,
                                    .lanes = options.in_flight}));
  RETURN_IF_ERROR(load->CheckRows());
  ASSIGN_OR_RETURN(std::unique_ptr<TcpBaselineClient> tcp,
                   TcpBaselineClient::Connect(processes.tcp_port));
  ASSIGN_OR_RETURN(auto channel, NetworkChannels({})(processes.baseline_address));
  RowBaseline row_baseline({.table_rows = options.table_rows,
                            .dim = options.dim,
                            .sizes = options.sizes,
                            .lanes = options.in_flight});
  std::vector<RpcCell> cells = MakeCells(options, {.load = load.get(),
                                                   .row_baseline = &row_baseline,
                                                   .tcp = tcp.get(),
                                                   .channel = channel,
                                                   .shard = processes.shard->pid(),
                                                   .baseline = processes.baseline->pid()});
  std::vector<pid_t> own = {processes.shard->pid(), processes.baseline->pid()};
  if (spinners != nullptr) own.insert(own.end(), spinners->pids().begin(), spinners->pids().end());
  const ForeignLoad foreign(own);
  RETURN_IF_ERROR(MeasureCells(options, spinners.get(), cells));
  const nlohmann::ordered_json json = DescribeCells(options, cells, foreign.Processors());
  if (options.output == "json") {
    cli::PrintLine(json.dump());
  } else {
    PrintCells(options, json);
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
  auto options = std::make_shared<RpcOptions>();  // shared with the callback
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
          "Requests of 10,000 rows and more that are measured at one time")
      .Range(1, 16)
      .ShowDefault();
  rpc.Add("--seconds", options->seconds, "Length of one measurement")
      .Range(0.01, 60.0)
      .ShowDefault();
  rpc.Add("--budget", options->budget_seconds,
          "Seconds for all measurements: rounds of each one in turn, as many as have room, at "
          "least one")
      .Range(0.0, 86400.0)
      .ShowDefault();
  rpc.AddSwitch("--figures-only", options->figures_only,
                "Only what the figures of the JSON are made of, hence more rounds");
  rpc.AddSwitch("!--no-spin", options->spin, "Let idle CPUs halt");
  rpc.Add("-o,--output", options->output, "Form of the result: text or json")
      .OneOf({"text", "json"});
  rpc.OnChosen([options, exit_code] { Report(Run(*options), exit_code); });
  const CliCommand baseline = app.AddSubcommand("rpc-baseline", "The other side of the baselines");
  baseline.Hide();  // for the command above only
  baseline.OnChosen([exit_code] { Report(ServeBaselines(), exit_code); });
}

}  // namespace dslide::bench

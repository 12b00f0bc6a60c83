// dslide-coordinator: flags, start, wait, stop.

#include <string>

#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "core/net/library_logs/library_logs.h"
#include "core/system/files/standard_streams.h"
#include "core/system/log.h"
#include "core/system/process/uncaught.h"
#include "services/common/config.h"
#include "services/common/exit_codes.h"
#include "services/common/log_settings.h"
#include "services/common/server/security_settings.h"
#include "services/common/server/server_runtime.h"
#include "services/common/signal_waiter.h"
#include "services/common/trace_settings.h"
#include "services/coordinator/coordinator_server.h"

namespace dslide::coordinator {
namespace {

constexpr char kFooter[] =
    R"(Examples:
  dslide-coordinator --shards 4
      A cluster of four shards on this machine; nothing is kept on disk.
  dslide-coordinator --shards 4 --listen 10.0.0.1:7000 --admin 10.0.0.1:7001 --insecure \
      --data-dir /var/lib/dslide
      For shards on other machines of a trusted network; models and generations survive a restart.
  dslide-coordinator --shards 4 --listen :7000 --tls-cert coordinator.crt \
      --tls-key coordinator.key --tls-ca ca.crt
      Encrypted; everybody shows a certificate and may do what its role is for.
  dslide-coordinator --config coordinator.conf --check-config
      Checks a file of lines like: shards = 4

Exit codes: 0 stopped in good order, 1 other failure, 2 wrong settings, 3 cannot listen on an address
(taken, or not this machine's), 4 the data directory is damaged, in use or unwritable.)";

struct Settings {
  LogSettings log;
  TracingSettings tracing;
  CoordinatorServerOptions server;
  std::string checkpoint_interval = "auto";
  std::string scrub_interval = "24h";
};

void AddCheckpoints(ConfigParser& config, Settings& settings) {
  CoordinatorOptions& coordinator = settings.server.coordinator;
  config.AddString("checkpoint-interval", &settings.checkpoint_interval,
                   "How often a cluster checkpoint is taken while there is work: off, a duration, "
                   "or auto (as often as it pays); needs --data-dir here and at the shards");
  config.AddDuration("mean-time-between-failures", &coordinator.schedule.mean_time_between_failures,
                     absl::Minutes(1), absl::Hours(24 * 365),
                     "What checkpoint-interval auto reckons with");
  config.AddInt("checkpoint-keep", &coordinator.checkpoints.keep, 1, 1000,
                "Cluster checkpoints kept");
  config.AddInt("checkpoint-full-every", &coordinator.checkpoints.full_every, 1, kMaxFullEvery,
                "Every so many-th cluster checkpoint has all rows; those between have what has "
                "changed and links to the one before; 1: each has all rows");
  config.AddString("checkpoint-scrub-interval", &settings.scrub_interval,
                   "How often every committed cluster checkpoint is read and compared: a duration, "
                   "or off");
  config.AddDuration("barrier-timeout", &coordinator.checkpoints.barrier_timeout,
                     absl::Milliseconds(100), absl::Minutes(5),
                     "How long trainers may take to finish their steps for a cluster checkpoint; "
                     "then they are retired");
}

absl::Status Resolve(Settings& settings) {
  CheckpointSchedule& schedule = settings.server.coordinator.schedule;
  const absl::Duration between = schedule.mean_time_between_failures;
  ASSIGN_OR_RETURN(schedule, ParseCheckpointSchedule(settings.checkpoint_interval));
  schedule.mean_time_between_failures = between;
  ASSIGN_OR_RETURN(settings.server.coordinator.scrub_interval,
                   ParseScrubInterval(settings.scrub_interval));
  RETURN_IF_ERROR(CheckTracingSettings(settings.tracing));
  return CheckServerOptions(settings.server.server);
}

void AddSettings(ConfigParser& config, Settings& settings) {
  CoordinatorServerOptions& options = settings.server;
  CoordinatorOptions& coordinator = options.coordinator;
  config.AddString("listen", &options.server.listen, "Address for gRPC: HOST:PORT or unix:PATH");
  config.AddString("admin", &options.server.admin,
                   "Address of the admin page (metrics, health); empty: none");
  config.AddInt("shards", &coordinator.membership.expected_shards, 1, kMaxShards,
                "Shards the cluster is made of");
  config.AddString(
      "data-dir", &options.data_dir,
      "Directory for models, generations, topology and the manifests of cluster checkpoints; "
      "empty: memory only");
  config.AddByteSize("disk-reserve", &options.disk_reserve_bytes, 0, int64_t{1} << 46,
                     "Space kept in the data directory to end things in good order when its disk "
                     "is full; 0: none");
  AddSecuritySettings(config, options.server);
  AddLogSettings(config, settings.log);
  AddTraceSettings(config, settings.tracing);
  config.AddBool("reflection", &options.server.reflection, "Offer gRPC server reflection");
  config.AddDuration("heartbeat-interval", &coordinator.membership.heartbeat_interval,
                     absl::Milliseconds(10), absl::Minutes(10),
                     "How often shards are told to say that they live");
  config.AddDuration("lease-timeout", &coordinator.jobs.timing.lease_timeout, absl::Seconds(2),
                     absl::Hours(24),  // trainers renew theirs every second
                     "A silent trainer's work is given to another after this");
  config.AddDuration("wait-interval", &coordinator.jobs.timing.wait, absl::Milliseconds(1),
                     absl::Minutes(1), "What trainers without work are told to wait");
  config.AddByteSize("max-model-assets", &coordinator.assets.max_set_bytes, 1, int64_t{1} << 40,
                     "What names, weights of words, vocabulary and tokenizer of a model may take");
  AddCheckpoints(config, settings);
  config.AddInt("max-jobs", &coordinator.jobs.max_jobs, 1, 1'000'000,
                "Jobs remembered; old finished ones are forgotten beyond it");
  config.AddDuration("drain-timeout", &options.server.drain_timeout, absl::ZeroDuration(),
                     absl::Minutes(10), "How long running calls may take at the end");
  config.AddDuration("drain-delay", &options.server.drain_delay, absl::ZeroDuration(),
                     absl::Minutes(10), "Pause between \"not ready\" and refusing calls");
}

int Main(int argc, char** argv) {
  ForwardLibraryLogs();
  ExitOnUncaught("dslide-coordinator");
  SignalWaiter signals;
  Settings settings;
  CoordinatorServerOptions& options = settings.server;
  // Higher from start to start.
  options.coordinator.jobs.first_lease = static_cast<LeaseId>(absl::ToUnixMicros(absl::Now()));
  options.server.binary = "dslide-coordinator";
  options.disk_reserve_bytes = kDefaultDiskReserveBytes;
  options.server.listen = "127.0.0.1:7000";
  options.server.admin = "127.0.0.1:7001";
  ConfigParser config(
      {.binary = "dslide-coordinator",
       .description = "Coordinates a dslide cluster: shards, models, training jobs.",
       .footer = kFooter});
  AddSettings(config, settings);
  config.SetValidator([&settings] { return Resolve(settings); });
  if (const auto exit_code = config.Parse(argc, argv); exit_code.has_value()) return *exit_code;
  ApplyLogSettings(settings.log);

  const auto spans = OtlpExporter::Start(settings.tracing, "dslide-coordinator");
  auto server = CoordinatorServer::Start(options);
  if (!server.ok()) {
    LogError("cannot start", {{"error", server.status().message()}});
    return ExitCodeOfStart(server.status());
  }
  (*server)->AddProcessMetrics();
  LogInfo("coordinator ready", {{"address", (*server)->runtime().address()},
                                {"admin", (*server)->runtime().admin_address()},
                                {"shards", options.coordinator.membership.expected_shards},
                                {"data_dir", options.data_dir}});
  return ServeUntilSignal((*server)->runtime(), signals);
}

}  // namespace
}  // namespace dslide::coordinator

int main(int argc, char** argv) {
  dslide::PrepareStandardStreams();
  return dslide::coordinator::Main(argc, argv);
}

// dslide-shard: flags, start, wait, stop.

#include <atomic>

#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/net/library_logs/library_logs.h"
#include "core/system/files/standard_streams.h"
#include "core/system/log.h"
#include "core/system/malloc_tuning.h"
#include "core/system/omp_spinning.h"
#include "core/system/process/uncaught.h"
#include "services/common/config.h"
#include "services/common/exit_codes.h"
#include "services/common/log_settings.h"
#include "services/common/server/security_settings.h"
#include "services/common/server/server_runtime.h"
#include "services/common/signal_waiter.h"
#include "services/common/trace_settings.h"
#include "services/shard/shard_server.h"

namespace dslide::shard {
namespace {

constexpr char kFooter[] =
    R"(Examples:
  dslide-shard --coordinator 127.0.0.1:7000
      A shard of a cluster on this machine, on a free port; rows live in memory only.
  dslide-shard --coordinator 10.0.0.1:7000 --listen 10.0.0.2:7010 --admin 10.0.0.2:7011 \
      --shard-id 0 --data-dir /var/lib/dslide --insecure
      On a machine of its own in a trusted network; a clean stop keeps the rows on disk.
  dslide-shard --coordinator c.example:7000 --listen :7010 --advertise s0.example:7010 \
      --tls-cert shard.crt --tls-key shard.key --tls-ca ca.crt
      Encrypted; everybody shows a certificate and may do what its role is for.
  dslide-shard --coordinator 10.0.0.1:7000 --data-dir /var/lib/dslide --durability log
      Nothing that was confirmed is lost when the process or the machine crashes.
  dslide-shard --listen unix:/run/dslide.sock --coordinator ""
      Without a cluster, for clients that bring their own slot map.
  dslide-shard --config shard.conf --check-config
      Checks a file of lines like: coordinator = 127.0.0.1:7000

Exit codes: 0 stopped in good order, 1 other failure (the final checkpoint failed, another process has
taken this shard's place, or the command log has failed), 2 wrong settings, 3 cannot listen on an address (taken, or not this
machine's), 4 the data directory is damaged, in use or unwritable.)";

constexpr int64_t kKiB = 1024;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

struct Settings {
  LogSettings log;
  TracingSettings tracing;
  ShardServerOptions server;
  int64_t threads = 0;
  int64_t shard_id = -1;
  std::string durability = DurabilityName(Durability::kCheckpoint);
};

void AddLimits(ConfigParser& config, ShardServerOptions& options) {
  config.AddByteSize("memory-budget", &options.core.memory_bytes, 0, kMaxBytes,
                     "Memory for rows and hash tables; 0: nine tenths of what the machine, the "
                     "container and ulimit -v allow, less the budgets below");
  config.AddByteSize("context-budget", &options.core.context_bytes, 0, kMaxBytes,
                     "Memory for steps between their forward and backward pass; 0: an eighth of "
                     "that limit, at most 512MiB");
  config.AddByteSize("reply-budget", &options.core.clients.total_reply_bytes, 0, kMaxBytes,
                     "Memory for answers kept in case a request is repeated; 0: a sixteenth, at "
                     "most 256MiB");
  config.AddByteSize("queue-budget", &options.queue.queue_bytes, 0, kMaxBytes,
                     "Memory for requests that wait for their turn; 0: a thirty-second part, at "
                     "most 128MiB");
  config.AddByteSize("bulk-budget", &options.limits.bulk_bytes, 0, kMaxBytes,
                     "Memory for gathers and scatters under way; 0: an eighth, at most 1GiB");
  config.AddInt("max-clients", &options.core.clients.max_clients, 1, 1'000'000,
                "Clients at one time; silent ones are given up beyond it");
  config.AddInt("quarantine-limit", &options.core.clients.bad_requests, 0, kQuarantineBlock,
                "Bad requests among 1000 of one client beyond which it is refused until it comes "
                "with a new id; 0: never");
}

void AddDurability(ConfigParser& config, Settings& settings) {
  DurabilityOptions& options = settings.server.durability;
  config.AddString("durability", &settings.durability,
                   "What confirmed updates survive: checkpoint (a clean stop), log-periodic (a "
                   "crash), log (a loss of power); the last two need --data-dir");
  config.AddDuration("log-sync-interval", &options.sync_interval, absl::Milliseconds(1),
                     absl::Hours(1), "How often log-periodic syncs: what a loss of power may cost");
  config.AddByteSize("log-image-interval", &options.image_every_bytes, 64 * kKiB, kMaxBytes,
                     "Growth of the command log from one image of the whole state to the next");
}

absl::Status ResolveDurability(Settings& settings) {
  ASSIGN_OR_RETURN(settings.server.durability.mode, ParseDurability(settings.durability));
  return absl::OkStatus();
}

void AddSettings(ConfigParser& config, Settings& settings) {
  ShardServerOptions& options = settings.server;
  config.AddString("listen", &options.server.listen,
                   "Address for gRPC: HOST:PORT (port 0: a free one) or unix:PATH");
  config.AddString("admin", &options.server.admin,
                   "Address of the admin page (metrics, health); empty: none");
  config.AddString("coordinator", &options.coordinator,
                   "Address of the coordinator; empty: a shard on its own");
  config.AddString("advertise", &options.advertise,
                   "HOST:PORT under which clients reach this shard; empty: that of --listen");
  config.AddInt("shard-id", &settings.shard_id, -1, kMaxShards - 1,
                "Number of this shard; -1: that of the data directory, else a free one");
  config.AddDouble("capacity-weight", &options.capacity_weight, 1e-6, 1e6,
                   "Share of the rows relative to other shards");
  config.AddString(
      "data-dir", &options.data_dir,
      "Directory for checkpoints and the command log; empty: rows live in memory only");
  config.AddByteSize("disk-reserve", &options.disk_reserve_bytes, 0, kMaxBytes,
                     "Space kept in the data directory to end things in good order when its disk "
                     "is full; 0: none");
  config.AddInt("threads", &settings.threads, 0, 1024,
                "Threads that compute; 0: all CPUs. The results do not depend on it");
  AddDurability(config, settings);
  AddLimits(config, options);
  AddSecuritySettings(config, options.server);
  AddLogSettings(config, settings.log);
  AddTraceSettings(config, settings.tracing);
  config.AddBool("reflection", &options.server.reflection, "Offer gRPC server reflection");
  config.AddDuration("drain-timeout", &options.server.drain_timeout, absl::ZeroDuration(),
                     absl::Minutes(10), "How long running calls may take at the end");
  config.AddDuration("drain-delay", &options.server.drain_delay, absl::ZeroDuration(),
                     absl::Minutes(10), "Pause between \"not ready\" and refusing calls");
}

int Main(int argc, char** argv) {
  TuneMalloc();
  ForwardLibraryLogs();
  ExitOnUncaught("dslide-shard");
  if (const absl::Status kernels = CheckKernelEnvironment(); !kernels.ok()) {
    LogError("wrong environment", {{"error", kernels.message()}});
    return kExitUsage;
  }
  SignalWaiter signals;
  Settings settings;
  ShardServerOptions& options = settings.server;
  options.server.binary = "dslide-shard";
  options.server.listen = "127.0.0.1:0";
  options.server.admin = "127.0.0.1:0";
  options.coordinator = "127.0.0.1:7000";
  // All in proportion to the memory that there is.
  options.core.memory_bytes = 0;
  options.core.context_bytes = 0;
  options.core.clients.total_reply_bytes = 0;
  options.queue.queue_bytes = 0;
  options.limits.bulk_bytes = 0;
  options.disk_reserve_bytes = kDefaultDiskReserveBytes;
  ConfigParser config({.binary = "dslide-shard",
                       .description = "Holds a slice of a model's rows and computes on them.",
                       .footer = kFooter});
  AddSettings(config, settings);
  config.SetValidator([&]() -> absl::Status {
    RETURN_IF_ERROR(ResolveDurability(settings));
    RETURN_IF_ERROR(CheckTracingSettings(settings.tracing));
    return CheckShardServerOptions(options);
  });
  if (const auto exit_code = config.Parse(argc, argv); exit_code.has_value()) return *exit_code;
  ApplyLogSettings(settings.log);
  options.core.parallelism.threads = static_cast<int>(settings.threads);
  options.shard_id = static_cast<int32_t>(settings.shard_id);
  std::atomic<bool> fenced = false;
  options.on_fenced = [&] {
    fenced = true;
    signals.Trigger();
  };

  const auto spans = OtlpExporter::Start(settings.tracing, "dslide-shard");
  auto server = ShardServer::Start(options);
  if (!server.ok()) {
    LogError("cannot start", {{"error", server.status().message()}});
    return ExitCodeOfStart(server.status());
  }
  (*server)->AddProcessMetrics();
  LogInfo("shard serving", {{"address", (*server)->runtime().address()},
                            {"admin", (*server)->runtime().admin_address()},
                            {"coordinator", options.coordinator},
                            {"data_dir", options.data_dir}});
  const int exit_code = ServeUntilSignal((*server)->runtime(), signals);
  return fenced && exit_code == kExitOk ? kExitFailure : exit_code;
}

}  // namespace
}  // namespace dslide::shard

int main(int argc, char** argv) {
  dslide::PrepareStandardStreams();
  dslide::DisableOmpSpinning(argv);
  return dslide::shard::Main(argc, argv);
}

#include "services/coordinator/coordinator_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "services/common/files/data_dir_error.h"
#include "services/common/files/durable_files.h"
#include "services/coordinator/assets/asset_store.h"
#include "services/coordinator/checkpoints/manifest_store.h"
#include "services/coordinator/jobs/job_store.h"
#include "services/coordinator/membership/shard_admin_client.h"
#include "services/coordinator/models/catalog_store.h"
#include "services/coordinator/rpc/status_page.h"

namespace dslide::coordinator {
namespace {

absl::StatusOr<std::unique_ptr<Coordinator>> MakeCoordinator(
    const CoordinatorServerOptions& options, Metrics* metrics) {
  CoordinatorStores stores;
  if (!options.data_dir.empty()) {
    auto opened = OpenCatalogStore(options.data_dir);
    if (!opened.ok()) return DataDirError(options.data_dir, opened.status());
    stores.catalog = *std::move(opened);
    auto committed = ManifestStore::Open(options.data_dir);
    if (!committed.ok()) return DataDirError(options.data_dir, committed.status());
    stores.manifests = *std::move(committed);
    auto jobs = OpenJobStore(options.data_dir);
    if (!jobs.ok()) return DataDirError(options.data_dir, jobs.status());
    stores.jobs = *std::move(jobs);
    auto assets =
        AssetStore::Open(AssetFolders::OnDisk(options.data_dir), options.coordinator.assets);
    if (!assets.ok()) return DataDirError(options.data_dir, assets.status());
    stores.assets = *std::move(assets);
  }
  auto coordinator = Coordinator::Create(
      options.coordinator, options.clock,
      MakeShardAdminClient(options.channels ? options.channels
                                            : NetworkServiceChannels(options.server.insecure,
                                                                     options.server.tls_store)),
      std::move(stores), metrics);
  if (!coordinator.ok()) return DataDirError(options.data_dir, coordinator.status());
  return coordinator;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    CoordinatorServerOptions options) {
  ASSIGN_OR_RETURN(options.server.tls_store, OpenTls(options.server.tls));
  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer);
  server->metrics_ = std::make_unique<Metrics>(options.metric_labels);
  if (!options.data_dir.empty()) {
    // First: what a start writes may be just what there is no space for.
    if (const absl::Status made = MakeDirectory(options.data_dir); !made.ok()) {
      return DataDirError(options.data_dir, made);
    }
    server->reserve_ = DiskReserve::Open(options.data_dir, {.bytes = options.disk_reserve_bytes});
    server->reserve_->AddMetrics(*server->metrics_);
  }
  ASSIGN_OR_RETURN(server->coordinator_, MakeCoordinator(options, server->metrics_.get()));
  Coordinator* const coordinator = server->coordinator_.get();
  server->operations_ =
      std::make_unique<Operations>(options.operations, options.clock, server->metrics_.get());
  Operations* const operations = server->operations_.get();
  server->service_ = std::make_unique<CoordinatorServiceImpl>(
      coordinator, operations, server->metrics_.get(), options.server.tls.job_cluster());
  ServerHooks hooks;
  hooks.before_shutdown = [coordinator, operations] {
    operations->Stop();
    coordinator->Stop();
  };
  hooks.running_calls = [service = server->service_.get()] { return service->running_calls(); };
  hooks.status = [coordinator, operations] {
    return MakeStatusPage(coordinator->Status(), coordinator->registry().ListModels(),
                          operations->List());
  };
  ASSIGN_OR_RETURN(
      server->runtime_,
      ServerRuntime::Start(options.server, {{server->service_.get(), kCoordinatorServiceName}},
                           *server->metrics_, std::move(hooks)));
  server->runtime_->SetReady(true);
  return server;
}

CoordinatorServer::~CoordinatorServer() = default;

}  // namespace dslide::coordinator

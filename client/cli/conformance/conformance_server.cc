#include "client/cli/conformance/conformance_server.h"

#include <iterator>
#include <utility>

#include "client/cpp/coordinator_client.h"
#include "core/base/status_macros.h"

namespace dslide::cli {

ConformanceServer::ConformanceServer(ChapterSet chapters, std::function<void(const Mistake&)> tell)
    : course_(MakeCourse()), verdicts_(chapters, std::move(tell)) {}

absl::StatusOr<std::unique_ptr<ConformanceServer>> ConformanceServer::Start(
    const std::string& listen, ChapterSet chapters, std::function<void(const Mistake&)> tell) {
  std::unique_ptr<ConformanceServer> server(new ConformanceServer(chapters, std::move(tell)));
  RETURN_IF_ERROR(server->StartCluster());
  RETURN_IF_ERROR(server->StartFaces(listen));
  return server;
}

absl::Status ConformanceServer::StartCluster() {
  EmbeddedClusterOptions options;
  options.shards = static_cast<int64_t>(std::size(kCourseShards));
  options.threads_per_shard = 1;
  options.capacity_weights.assign(std::begin(kCourseShards), std::end(kCourseShards));
  ASSIGN_OR_RETURN(cluster_, EmbeddedCluster::Start(options));
  const std::string address = cluster_->coordinator_address();
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, cluster_->OpenChannel(address));
  CoordinatorClient coordinator(channel, address, {}, nullptr);
  ASSIGN_OR_RETURN(const ClusterMap map, coordinator.GetClusterMap());
  ASSIGN_OR_RETURN(checks_, CourseChecks::Create(course_, map.topology_version, verdicts_));
  for (const auto& shard : map.shards) {
    ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> behind,
                     cluster_->OpenChannel(shard.address));
    shards_.push_back(
        std::make_unique<ShardFace>(static_cast<int>(shards_.size()), behind, *checks_));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ServerRuntime>> ConformanceServer::Serve(const std::string& listen,
                                                                        grpc::Service& service,
                                                                        const char* service_name) {
  ServerOptions options;
  options.binary = "dslide conformance";
  options.listen = listen;
  options.max_connection_rate = 0;  // a client may be started as often as its author likes
  options.drain_timeout = absl::Seconds(1);
  ASSIGN_OR_RETURN(std::unique_ptr<ServerRuntime> runtime,
                   ServerRuntime::Start(options, {{&service, service_name}}, metrics_));
  runtime->SetReady(true);
  return runtime;
}

absl::Status ConformanceServer::StartFaces(const std::string& listen) {
  std::vector<FaceAddress> faces;
  for (const auto& shard : shards_) {
    ASSIGN_OR_RETURN(std::unique_ptr<ServerRuntime> runtime,
                     Serve("127.0.0.1:0", *shard, "dslide.v1.ShardService"));
    faces.push_back({shard.get(), runtime->address()});
    shard_runtimes_.push_back(std::move(runtime));
  }
  const std::string address = cluster_->coordinator_address();
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, cluster_->OpenChannel(address));
  coordinator_ = std::make_unique<CoordinatorFace>(channel, std::move(faces), *checks_);
  ASSIGN_OR_RETURN(coordinator_runtime_,
                   Serve(listen, *coordinator_, "dslide.v1.CoordinatorService"));
  return absl::OkStatus();
}

const Verdicts& ConformanceServer::Finish() {
  Stop();
  checks_->Finish();
  coordinator_->Finish();
  return verdicts_;
}

// Faces before what is behind them.
void ConformanceServer::Stop() {
  if (coordinator_runtime_ != nullptr) coordinator_runtime_->Drain().IgnoreError();
  for (const auto& runtime : shard_runtimes_) runtime->Drain().IgnoreError();
}

ConformanceServer::~ConformanceServer() { Stop(); }

}  // namespace dslide::cli

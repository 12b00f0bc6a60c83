// The cluster that checks its client: an embedded one, and before each of its servers a face.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/conformance/coordinator_face.h"
#include "client/cli/conformance/course.h"
#include "client/cli/conformance/course_checks.h"
#include "client/cli/conformance/shard_face.h"
#include "client/cli/conformance/verdicts.h"
#include "core/net/metrics/metrics.h"
#include "services/common/server/server_runtime.h"
#include "services/embedded/embedded_cluster.h"

namespace dslide::cli {

// Thread safety: one thread.
class ConformanceServer {
 public:
  // `listen`: "host:port" of the coordinator's face, on this machine. `chapters`: those that are
  // judged. `tell` is called with each new kind of mistake, from any thread; null: nobody is told
  // before the end. Errors: those of EmbeddedCluster::Start() and of ServerRuntime::Start().
  static absl::StatusOr<std::unique_ptr<ConformanceServer>> Start(
      const std::string& listen, ChapterSet chapters, std::function<void(const Mistake&)> tell);
  // Ends all calls.
  ~ConformanceServer();

  const Course& course() const { return course_; }
  std::string address() const { return coordinator_runtime_->address(); }

  // The client is done: ends all calls and completes the verdicts. Once.
  const Verdicts& Finish();

 private:
  ConformanceServer(ChapterSet chapters, std::function<void(const Mistake&)> tell);
  absl::Status StartCluster();
  absl::Status StartFaces(const std::string& listen);
  absl::StatusOr<std::unique_ptr<ServerRuntime>> Serve(const std::string& listen,
                                                       grpc::Service& service,
                                                       const char* service_name);
  void Stop();

  const Course course_;
  Verdicts verdicts_;
  Metrics metrics_;
  // Later ones use earlier ones.
  std::unique_ptr<EmbeddedCluster> cluster_;
  std::unique_ptr<CourseChecks> checks_;
  std::vector<std::unique_ptr<ShardFace>> shards_;
  std::vector<std::unique_ptr<ServerRuntime>> shard_runtimes_;
  std::unique_ptr<CoordinatorFace> coordinator_;
  std::unique_ptr<ServerRuntime> coordinator_runtime_;
};

}  // namespace dslide::cli

#include "client/cli/cluster/cluster_session.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/cluster/connect.h"
#include "core/base/status_macros.h"
#include "services/embedded/embedded_cluster.h"

namespace dslide::cli {
namespace {

// A directory that is removed with its owner.
class TemporaryDirectory {
 public:
  static absl::StatusOr<std::unique_ptr<TemporaryDirectory>> Create() {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "dslide-XXXXXX").string();
    if (error || mkdtemp(path.data()) == nullptr) {
      return absl::PermissionDeniedError(absl::StrCat("cannot make a temporary directory ", path,
                                                      "; set TMPDIR, or name a --model-dir"));
    }
    return std::make_unique<TemporaryDirectory>(std::move(path));
  }
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace

struct ClusterSession::Embedded {
  std::unique_ptr<TemporaryDirectory> temporary;  // outlives the cluster
  std::unique_ptr<EmbeddedCluster> cluster;
};

ClusterSession::ClusterSession() = default;
ClusterSession::~ClusterSession() { (void)Close(); }

absl::StatusOr<std::unique_ptr<ClusterSession>> ClusterSession::Connect(
    const std::string& address, const ChannelOptions& channels, ClientOptions options) {
  RETURN_IF_ERROR(AwaitHost(address));
  std::unique_ptr<ClusterSession> session(new ClusterSession());
  session->connect_ = [address, factory = NetworkChannels(channels)](ClientOptions of_client) {
    return ClusterClient::Connect(address, factory, std::move(of_client));
  };
  ASSIGN_OR_RETURN(session->client_, session->connect_(std::move(options)));
  return session;
}

absl::StatusOr<std::unique_ptr<ClusterSession>> ClusterSession::StartEmbedded(
    const EmbeddedOptions& embedded, ClientOptions options) {
  std::unique_ptr<ClusterSession> session(new ClusterSession());
  session->embedded_ = std::make_unique<Embedded>();
  EmbeddedClusterOptions cluster;
  cluster.shards = embedded.shards;
  cluster.threads_per_shard = static_cast<int>(
      std::max<int64_t>(1, embedded.parallelism.threads / std::max<int64_t>(1, embedded.shards)));
  cluster.data_dir = embedded.data_dir;
  cluster.rows_from = embedded.rows_from;
  if (cluster.data_dir.empty() && cluster.rows_from.empty()) {
    ASSIGN_OR_RETURN(session->embedded_->temporary, TemporaryDirectory::Create());
    cluster.data_dir = session->embedded_->temporary->path();
    cluster.write_latest = false;
  }
  ASSIGN_OR_RETURN(session->embedded_->cluster, EmbeddedCluster::Start(cluster));
  EmbeddedCluster* raw = session->embedded_->cluster.get();
  session->connect_ = [raw](ClientOptions of_client) {
    of_client.local_shards = [raw](const std::string& address) { return raw->FindShard(address); };
    return ClusterClient::Connect(
        raw->coordinator_address(),
        [raw](const std::string& address) { return raw->OpenChannel(address); },
        std::move(of_client));
  };
  ASSIGN_OR_RETURN(session->client_, session->connect_(std::move(options)));
  return session;
}

std::map<std::string, double> ClusterSession::StageSeconds() const {
  if (embedded_ == nullptr || embedded_->cluster == nullptr) return {};
  return embedded_->cluster->StageSeconds();
}

absl::Status ClusterSession::Close() {
  client_.reset();  // channels must be gone before the servers are
  if (embedded_ == nullptr || embedded_->cluster == nullptr) return absl::OkStatus();
  return embedded_->cluster->Stop();
}

}  // namespace dslide::cli

// dslide.v1.DataService.

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/sparse_batch.h"
#include "core/net/metrics/metrics.h"
#include "dslide/v1/data.grpc.pb.h"
#include "services/common/rpc_metrics.h"

namespace dslide::cli {

inline constexpr char kDataServiceName[] = "dslide.v1.DataService";

// A data set with what its callers are spared to count.
struct ServedData {
  std::unique_ptr<Dataset> data = nullptr;  // has counted its features
  std::vector<int64_t> label_points = {};   // [num_labels]: points with each label
  std::string tokenizer = {};               // tokenizer.json; "": nobody knows how texts were cut
};
using ServedDatasets = std::map<std::string, ServedData>;  // by name

v1::SparsePoints ToWire(const SparseBatch& batch);
// Bytes that a sample takes at most in a v1.SparsePoints.
int64_t MaxWireBytes(const SparseBatch& batch, int64_t sample);

// Thread safety: safe from any thread.
class DataServiceImpl final : public v1::DataService::Service {
 public:
  explicit DataServiceImpl(Metrics& metrics);

  // Until then calls are UNAVAILABLE. Once.
  void Open(ServedDatasets datasets);
  // Empty before Open(); constant from then on.
  std::shared_ptr<const ServedDatasets> datasets() const;

  grpc::Status GetDataset(grpc::ServerContext* context, const v1::GetDatasetRequest* request,
                          v1::GetDatasetResponse* response) override;
  grpc::Status ListFeatures(grpc::ServerContext* context, const v1::ListFeaturesRequest* request,
                            v1::ListFeaturesResponse* response) override;
  grpc::Status ListLabels(grpc::ServerContext* context, const v1::ListLabelsRequest* request,
                          v1::ListLabelsResponse* response) override;
  grpc::Status ReadPoints(grpc::ServerContext* context, const v1::ReadPointsRequest* request,
                          v1::ReadPointsResponse* response) override;

  // Calls that have no answer yet.
  int64_t running_calls() const { return rpc_metrics_.running(); }

 private:
  // Lives as long as this.
  absl::StatusOr<const ServedData*> Find(const std::string& name) const;
  // The same; checks that it is the data that the caller asked about.
  absl::StatusOr<const ServedData*> Find(const std::string& name, uint64_t fingerprint) const;

  const RpcMetrics rpc_metrics_;
  mutable absl::Mutex mu_;
  std::shared_ptr<const ServedDatasets> datasets_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::cli

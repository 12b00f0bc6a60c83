// dslide.v1.PredictService, and the same over HTTP with JSON.

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/serve/predict_batcher.h"
#include "client/cli/serve/served_model.h"
#include "core/net/http/http_server.h"
#include "core/net/metrics/metrics.h"
#include "dslide/v1/predict.grpc.pb.h"
#include "services/common/rpc_metrics.h"

namespace dslide::cli {

inline constexpr char kPredictServiceName[] = "dslide.v1.PredictService";

struct PredictServiceOptions {
  // Where a request asks for no mode: among what hashing finds, for models that hash.
  bool hashed_by_default = false;
  // The deadline of a request that sets none, and the latest of any. > 0.
  absl::Duration request_timeout = absl::Seconds(30);
};

// Checks requests, has the batcher rank them, and puts names to the answers. The error of a call is
// of one of these kinds: INVALID_ARGUMENT naming the query and the field; RESOURCE_EXHAUSTED with a
// pause; DEADLINE_EXCEEDED; UNAVAILABLE; those of the shards.
//
// Thread safety: safe from any thread. Handlers of gRPC do not block; Http() does.
class PredictServiceImpl final : public v1::PredictService::CallbackService {
 public:
  // All outlive it.
  PredictServiceImpl(PredictServiceOptions options, const ServedModel& model,
                     PredictBatcher& batcher, Metrics& metrics);

  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context,
                                    const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;

  // POST /v1/predict, GET /v1/model, and the page for people. An error is an object "error" with
  // code, reason, message and request_id.
  HttpReply Http(const HttpCall& call) const;

  // Calls that have no answer yet.
  int64_t running_calls() const { return rpc_metrics_.running(); }

 private:
  class Call;
  using Done = std::function<void(absl::StatusOr<v1::PredictResponse>)>;

  // Answers by `done`, on any thread. patience: how long the caller waits. `cancelled` may be null.
  void Answer(const v1::PredictRequest& request, absl::Duration patience,
              std::function<bool()> cancelled, Done done) const;
  absl::StatusOr<v1::GetModelResponse> Describe() const;
  absl::StatusOr<std::string> PredictJson(const HttpCall& call) const;

  const PredictServiceOptions options_;
  const ServedModel& model_;
  PredictBatcher& batcher_;
  const RpcMetrics rpc_metrics_;
  Histogram http_seconds_;
};

}  // namespace dslide::cli

// One step stream of a client, between it and the real shard.

#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/cli/conformance/shard_face.h"
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide::cli {

// Requests pass on the caller's thread, answers on another one. Used once.
class StepRelay {
 public:
  using Stream = grpc::ServerReaderWriter<v1::StepResponse, v1::StepRequest>;

  // All outlive it.
  StepRelay(ShardFace& face, grpc::ServerContext& context, Stream& client);

  // Until the client ends the stream, or the course breaks it.
  grpc::Status Run();

 private:
  // False when the stream is to break.
  bool Pass(v1::StepRequest request);
  // Hands the request over and waits until its answer is there, which the client never gets.
  void PassAndLose(v1::StepRequest request, bool move) ABSL_LOCKS_EXCLUDED(mu_);
  void Remember(const v1::StepRequest& request) ABSL_LOCKS_EXCLUDED(mu_);
  void PassAnswers() ABSL_LOCKS_EXCLUDED(mu_);
  // Whether the client is to get it.
  bool Look(const v1::StepResponse& response) ABSL_LOCKS_EXCLUDED(mu_);
  void Write(const v1::StepResponse& response) ABSL_LOCKS_EXCLUDED(write_mu_);

  ShardFace& face_;
  grpc::ServerContext& context_;
  Stream& client_;
  const std::unique_ptr<grpc::ClientContext> behind_context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::StepRequest, v1::StepResponse>> behind_;
  absl::Mutex write_mu_;
  absl::Mutex mu_;
  std::map<uint64_t, v1::StepRequest> unanswered_ ABSL_GUARDED_BY(mu_);  // by sequence
  uint64_t losing_ ABSL_GUARDED_BY(mu_) = 0;                             // 0: none
  bool lost_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;    // by the shard
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;  // by the client, or by the course
};

}  // namespace dslide::cli

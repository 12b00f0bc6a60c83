// dslide.v1.ShardService: translation between gRPC and the sequencer.

#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>

#include "core/net/metrics/metrics.h"
#include "core/net/rpc/local_shard.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "services/common/rpc_metrics.h"
#include "services/shard/durability/checkpoint_participant.h"
#include "services/shard/durability/checkpoint_transfer.h"
#include "services/shard/rpc/background_tasks.h"
#include "services/shard/rpc/shard_call_service.h"

namespace dslide::shard {

inline constexpr char kShardServiceName[] = "dslide.v1.ShardService";

struct ShardServiceOptions {
  ServiceLimits limits = {};
  // Largest message the transport accepts, for GetServerInfo.
  int64_t max_message_bytes = 4 << 20;
  // What certificates say of jobs counts in this cluster (JobGuard); "": nowhere.
  std::string job_cluster = {};
  // Requests are queued with what the sequencer's log keeps of them.
  bool log_commands = false;
  // Keeps rows that a checkpoint has replaced, on the sequencer's thread. May be null.
  std::function<absl::Status(ShardCore&)> rows_replaced = nullptr;
};

using ReadBase = v1::ShardService::WithCallbackMethod_Read<
    v1::ShardService::WithCallbackMethod_ReadRows<v1::ShardService::Service>>;

// Of cluster checkpoints that are copied or restored.
using CheckpointFilesBase = v1::ShardService::WithCallbackMethod_ReadCheckpointFile<
    v1::ShardService::WithCallbackMethod_WriteCheckpointFile<
        v1::ShardService::WithCallbackMethod_AdoptCheckpoint<
            v1::ShardService::WithCallbackMethod_PrepareRollback<ReadBase>>>>;

// Every method with callbacks; the streams with raw bytes. Put together one by one because a
// bidirectional stream cannot be made raw on top of the generated CallbackService: the two kinds
// of handler differ in nothing but what they return.
using ShardServiceBase = v1::ShardService::WithRawCallbackMethod_Step<v1::ShardService::WithRawCallbackMethod_Gather<
    v1::ShardService::WithRawCallbackMethod_Scatter<v1::ShardService::WithCallbackMethod_GetServerInfo<
        v1::ShardService::WithCallbackMethod_TopK<v1::ShardService::WithCallbackMethod_CreateModel<
            v1::ShardService::WithCallbackMethod_DescribeModel<v1::ShardService::WithCallbackMethod_DropModel<
                v1::ShardService::WithCallbackMethod_Hello<v1::ShardService::WithCallbackMethod_CloseClient<
                    v1::ShardService::WithCallbackMethod_WriteCheckpoint<
                        v1::ShardService::WithCallbackMethod_LoadCheckpoint<
                            v1::ShardService::WithCallbackMethod_EstimateFreezeDelay<
                                v1::ShardService::WithCallbackMethod_FreezeSteps<
                                    v1::ShardService::WithCallbackMethod_AdmitSteps<
                                        v1::ShardService::WithCallbackMethod_CutCheckpoint<
                                            v1::ShardService::WithCallbackMethod_AbortCheckpoint<
                                                v1::ShardService::WithCallbackMethod_GetCheckpointProgress<
                                                    v1::ShardService::WithCallbackMethod_VerifyCheckpoint<
                                                        v1::ShardService::WithCallbackMethod_RetainCheckpoints<
                                                            v1::ShardService::WithCallbackMethod_Rollback<
                                                                CheckpointFilesBase>>>>>>>>>>>>>>>>>>>>>;

// Thread safety: safe from any thread. Handlers never block: they decode, queue, and answer from
// the sequencer's callbacks.
class ShardServiceImpl final : public ShardServiceBase {
 public:
  // The pointers outlive it; `store`, `participant` and its `images` are null without a data
  // directory.
  ShardServiceImpl(ShardServiceOptions options, Sequencer* sequencer, ShardMetrics* shard_metrics,
                   ModelCheckpoints* store, CheckpointParticipant* participant,
                   CheckpointImages* images, Metrics* metrics, const Clock* clock);
  ~ShardServiceImpl() override;

  // What GetServerInfo tells; follows SetOwnershipCommand.
  void SetIdentity(ShardId shard, uint64_t generation, uint64_t topology_version);
  // Ends the step streams once their requests are answered, and refuses new ones.
  void StopStreams() { shared_.streams.StopAll(); }
  // For callers of this process. It ends with this.
  LocalShard& local() { return *local_; }
  // Calls that have no answer yet.
  int64_t running_calls() const { return rpc_metrics_.running(); }

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const v1::GetServerInfoRequest* request,
                                          v1::GetServerInfoResponse* response) override;
  // Bytes of v1.StepRequest and v1.StepResponse.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Step(
      grpc::CallbackServerContext* context) override;
  // Bytes of v1.GatherRequest and v1.GatherResponse.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Gather(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* request) override;
  // Bytes of v1.ScatterRequest and v1.ScatterResponse.
  grpc::ServerReadReactor<grpc::ByteBuffer>* Scatter(grpc::CallbackServerContext* context,
                                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Read(grpc::CallbackServerContext* context,
                                 const v1::ReadRequest* request,
                                 v1::ReadResponse* response) override;
  grpc::ServerUnaryReactor* TopK(grpc::CallbackServerContext* context,
                                 const v1::TopKRequest* request,
                                 v1::TopKResponse* response) override;
  grpc::ServerUnaryReactor* CreateModel(grpc::CallbackServerContext* context,
                                        const v1::CreateModelRequest* request,
                                        v1::CreateModelResponse* response) override;
  grpc::ServerUnaryReactor* DescribeModel(grpc::CallbackServerContext* context,
                                          const v1::DescribeModelRequest* request,
                                          v1::DescribeModelResponse* response) override;
  grpc::ServerUnaryReactor* ReadRows(grpc::CallbackServerContext* context,
                                     const v1::ReadRowsRequest* request,
                                     v1::ReadRowsResponse* response) override;
  grpc::ServerUnaryReactor* DropModel(grpc::CallbackServerContext* context,
                                      const v1::DropModelRequest* request,
                                      v1::DropModelResponse* response) override;
  grpc::ServerUnaryReactor* Hello(grpc::CallbackServerContext* context,
                                  const v1::HelloRequest* request,
                                  v1::HelloResponse* response) override;
  grpc::ServerUnaryReactor* CloseClient(grpc::CallbackServerContext* context,
                                        const v1::CloseClientRequest* request,
                                        v1::CloseClientResponse* response) override;
  grpc::ServerUnaryReactor* WriteCheckpoint(grpc::CallbackServerContext* context,
                                            const v1::WriteCheckpointRequest* request,
                                            v1::WriteCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* LoadCheckpoint(grpc::CallbackServerContext* context,
                                           const v1::LoadCheckpointRequest* request,
                                           v1::LoadCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* EstimateFreezeDelay(grpc::CallbackServerContext* context,
                                                const v1::EstimateFreezeDelayRequest* request,
                                                v1::EstimateFreezeDelayResponse* response) override;
  grpc::ServerUnaryReactor* FreezeSteps(grpc::CallbackServerContext* context,
                                        const v1::FreezeStepsRequest* request,
                                        v1::FreezeStepsResponse* response) override;
  grpc::ServerUnaryReactor* AdmitSteps(grpc::CallbackServerContext* context,
                                       const v1::AdmitStepsRequest* request,
                                       v1::AdmitStepsResponse* response) override;
  grpc::ServerUnaryReactor* CutCheckpoint(grpc::CallbackServerContext* context,
                                          const v1::CutCheckpointRequest* request,
                                          v1::CutCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* AbortCheckpoint(grpc::CallbackServerContext* context,
                                            const v1::AbortCheckpointRequest* request,
                                            v1::AbortCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* GetCheckpointProgress(
      grpc::CallbackServerContext* context, const v1::GetCheckpointProgressRequest* request,
      v1::GetCheckpointProgressResponse* response) override;
  grpc::ServerUnaryReactor* VerifyCheckpoint(grpc::CallbackServerContext* context,
                                             const v1::VerifyCheckpointRequest* request,
                                             v1::VerifyCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* PrepareRollback(grpc::CallbackServerContext* context,
                                            const v1::PrepareRollbackRequest* request,
                                            v1::PrepareRollbackResponse* response) override;
  grpc::ServerUnaryReactor* RetainCheckpoints(grpc::CallbackServerContext* context,
                                              const v1::RetainCheckpointsRequest* request,
                                              v1::RetainCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* Rollback(grpc::CallbackServerContext* context,
                                     const v1::RollbackRequest* request,
                                     v1::RollbackResponse* response) override;
  grpc::ServerUnaryReactor* ReadCheckpointFile(grpc::CallbackServerContext* context,
                                               const v1::ReadCheckpointFileRequest* request,
                                               v1::ReadCheckpointFileResponse* response) override;
  grpc::ServerUnaryReactor* WriteCheckpointFile(grpc::CallbackServerContext* context,
                                                const v1::WriteCheckpointFileRequest* request,
                                                v1::WriteCheckpointFileResponse* response) override;
  grpc::ServerUnaryReactor* AdoptCheckpoint(grpc::CallbackServerContext* context,
                                            const v1::AdoptCheckpointRequest* request,
                                            v1::AdoptCheckpointResponse* response) override;

 private:
  class Unary;
  template <typename Request>
  Unary* Start(const char* method, grpc::CallbackServerContext* context, const Request& request);
  // Queues the command, or ends the call when it could not be decoded. `encode` fills the response
  // from the answer and returns its size. `logged` is for commands that may
  // change the state.
  template <typename C>
  void Submit(Unary* call, absl::StatusOr<C> command, int64_t bytes, bool control,
              std::function<size_t(const Answer&)> encode, wire::LoggedCommand logged = {});
  template <typename Request>
  wire::LoggedCommand LogOf(wire::LoggedKind kind, const Request& request) const;
  // Runs a checkpoint operation in its turn; without a store the call ends at once.
  void SubmitTask(Unary* call, const std::string& model, const std::string& checkpoint,
                  std::function<absl::Status(ShardCore&)> task);
  void SubmitTask(Unary* call, QueuePlace place, std::function<absl::Status(ShardCore&)> task);
  static absl::Status NoDataDir();
  void Refuse(Unary* call, const absl::Status& why);
  // Runs `work`, which reads files, on a thread of its own.
  void RunInBackground(Unary* call, std::function<absl::Status()> work);

  const ShardServiceOptions options_;
  CheckpointParticipant* const participant_;
  Metrics& metrics_;
  ServiceContext shared_;
  const RpcMetrics rpc_metrics_;
  const std::unique_ptr<CheckpointTransfer> transfer_;  // null without images
  const std::unique_ptr<LocalShard> local_;
  BackgroundTasks background_;  // last: what runs uses everything above
};

}  // namespace dslide::shard

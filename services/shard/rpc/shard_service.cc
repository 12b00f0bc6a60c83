#include "services/shard/rpc/shard_service.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/protocol/job_work.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"
#include "core/wire/arrays/explicit_rows_codec.h"
#include "core/wire/control_codec.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/log/logged_command.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/read_codec.h"
#include "core/wire/steps/step_codec.h"
#include "core/wire/stored_rows_codec.h"
#include "services/shard/rpc/bulk_service.h"
#include "services/shard/rpc/local_call_service.h"
#include "services/shard/rpc/step_stream_service.h"
#include "services/shard/rpc/unary_call_service.h"

namespace dslide::shard {
namespace {

constexpr const char* kStepCapabilities[] = {wire::kPackedSteps, wire::kSparseMatrices,
                                             wire::kExplicitRows, wire::kAveragedRows,
                                             wire::kLabelWeights};

}  // namespace

ShardServiceImpl::ShardServiceImpl(ShardServiceOptions options, Sequencer* sequencer,
                                   ShardMetrics* shard_metrics, ModelCheckpoints* store,
                                   CheckpointParticipant* participant, CheckpointImages* images,
                                   Metrics* metrics, const Clock* clock)
    : options_(std::move(options)),
      participant_(participant),
      metrics_(*metrics),
      shared_(options_.limits, options_.job_cluster, *metrics),
      rpc_metrics_(*metrics, "shard", kShardServiceName),
      transfer_(images == nullptr ? nullptr : std::make_unique<CheckpointTransfer>(images)),
      local_(std::make_unique<LocalCalls>(shared_)) {
  shared_.sequencer = sequencer;
  shared_.metrics = shard_metrics;
  shared_.rpc = &rpc_metrics_;
  shared_.clock = clock;
  shared_.store = store;
  shared_.log_commands = options_.log_commands;
  shared_.rows_replaced = options_.rows_replaced;
  metrics_.AddGaugeCallback(this, "dslide_shard_bulk_buffer_bytes",
                            "Memory of Gather answers: on their way, and kept for the next ones.",
                            {{"state", "used"}},
                            [this] { return double(shared_.bulk_buffers.used_bytes()); });
  metrics_.AddGaugeCallback(this, "dslide_shard_bulk_buffer_bytes",
                            "Memory of Gather answers: on their way, and kept for the next ones.",
                            {{"state", "spare"}},
                            [this] { return double(shared_.bulk_buffers.free_bytes()); });
}

ShardServiceImpl::~ShardServiceImpl() { metrics_.RemoveCallbacks(this); }

void ShardServiceImpl::SetIdentity(ShardId shard, uint64_t generation, uint64_t topology_version) {
  shared_.shard_id = shard.value();
  shared_.generation = generation;
  shared_.topology_version = topology_version;
}

template <typename Request>
wire::LoggedCommand ShardServiceImpl::LogOf(wire::LoggedKind kind, const Request& request) const {
  if (!shared_.log_commands) return {};
  return wire::LogBytes(kind, request.SerializeAsString());
}

template <typename C>
void ShardServiceImpl::Submit(Unary* call, absl::StatusOr<C> command, int64_t bytes, bool control,
                              std::function<size_t(const Answer&)> encode,
                              wire::LoggedCommand logged) {
  SubmitCommand(call, std::move(command), {bytes, control, std::move(logged)}, std::move(encode));
}

grpc::ServerUnaryReactor* ShardServiceImpl::GetServerInfo(grpc::CallbackServerContext* context,
                                                          const v1::GetServerInfoRequest* request,
                                                          v1::GetServerInfoResponse* response) {
  Unary* const call = Start("GetServerInfo", context, *request);
  response->set_version(Version());
  response->set_revision(Revision());
  response->set_shard_id(shared_.shard_id);
  response->set_generation(shared_.generation);
  response->set_topology_version(shared_.topology_version);
  response->set_max_message_bytes(options_.max_message_bytes);
  for (const char* word : {"gather-by-fingerprint", "scatter-assign", "tail-corrected-softmax",
                           wire::kReads, wire::kLoadRows}) {
    response->add_capabilities(word);
  }
  for (const char* word : kStepCapabilities) response->add_capabilities(word);
  if (shared_.store != nullptr) response->add_capabilities("checkpoint");
  if (participant_ != nullptr) response->add_capabilities("cluster-checkpoint");
  call->record().Sent(response->ByteSizeLong());
  call->End(absl::OkStatus());
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ShardServiceImpl::Step(
    grpc::CallbackServerContext* context) {
  return new StepStream(shared_, context);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ShardServiceImpl::Gather(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return new GatherCall(shared_, context, *request);
}

grpc::ServerReadReactor<grpc::ByteBuffer>* ShardServiceImpl::Scatter(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  return new ScatterCall(shared_, context, response);
}

grpc::ServerUnaryReactor* ShardServiceImpl::Read(grpc::CallbackServerContext* context,
                                                 const v1::ReadRequest* request,
                                                 v1::ReadResponse* response) {
  Unary* const call = Start("Read", context, *request);
  SubmitRead(call, *request, response);
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::TopK(grpc::CallbackServerContext* context,
                                                 const v1::TopKRequest* request,
                                                 v1::TopKResponse* response) {
  Unary* const call = Start("TopK", context, *request);
  SubmitTopK(call, *request, response);
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::CreateModel(grpc::CallbackServerContext* context,
                                                        const v1::CreateModelRequest* request,
                                                        v1::CreateModelResponse* response) {
  Unary* const call = Start("CreateModel", context, *request);
  const auto bytes = static_cast<int64_t>(request->ByteSizeLong());
  Submit(
      call, wire::DecodeCreateModel(*request), bytes, /*control=*/true,
      [response](const Answer& answer) {
        response->set_created(std::get<CreateModelReply>(answer.reply->body).created);
        return response->ByteSizeLong();
      },
      request->dry_run() ? wire::LoggedCommand() : LogOf(wire::LoggedKind::kCreateModel, *request));
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::DescribeModel(grpc::CallbackServerContext* context,
                                                          const v1::DescribeModelRequest* request,
                                                          v1::DescribeModelResponse* response) {
  Unary* const call = Start("DescribeModel", context, *request);
  // A digest is a pass over all rows: that waits its turn, and no longer than its caller.
  Submit(call, wire::DecodeDescribeModel(*request), 0, /*control=*/!request->with_digests(),
         [response](const Answer& answer) {
           wire::EncodeDescribeModel(std::get<DescribeModelReply>(answer.reply->body), response);
           return response->ByteSizeLong();
         });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::ReadRows(grpc::CallbackServerContext* context,
                                                     const v1::ReadRowsRequest* request,
                                                     v1::ReadRowsResponse* response) {
  Unary* const call = Start("ReadRows", context, *request);
  // The answer may be as large as a message.
  Submit(call, wire::DecodeReadRows(*request), wire::kMaxMessageBytes, /*control=*/false,
         [response](const Answer& answer) {
           wire::EncodeReadRows(std::get<ReadRowsReply>(answer.reply->body), response);
           return response->ByteSizeLong();
         });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::Hello(grpc::CallbackServerContext* context,
                                                  const v1::HelloRequest* request,
                                                  v1::HelloResponse* response) {
  Unary* const call = Start("Hello", context, *request);
  const uint64_t acknowledged = request->acknowledged_sequence();
  Submit(
      call, wire::DecodeHello(*request), 0, /*control=*/true,
      [this, response, acknowledged](const Answer& answer) {
        const HelloReply& reply = std::get<HelloReply>(answer.reply->body);
        if (acknowledged >= reply.next_sequence) {
          const uint64_t lost = acknowledged - (reply.next_sequence - 1);
          shared_.metrics->RecordAckedLoss(lost);
          LogWarning("a client has answers to updates that this shard does not remember",
                     {{"lost", lost}});
        }
        wire::EncodeHello(reply, response);
        for (const char* word : kStepCapabilities) response->add_capabilities(word);
        return response->ByteSizeLong();
      },
      LogOf(wire::LoggedKind::kHello, *request));
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::CloseClient(grpc::CallbackServerContext* context,
                                                        const v1::CloseClientRequest* request,
                                                        v1::CloseClientResponse* response) {
  Unary* const call = Start("CloseClient", context, *request);
  Submit(
      call, wire::DecodeCloseClient(*request), 0, /*control=*/true,
      [response](const Answer&) { return response->ByteSizeLong(); },
      LogOf(wire::LoggedKind::kCloseClient, *request));
  return call;
}

void ShardServiceImpl::SubmitTask(Unary* call, const std::string& model,
                                  const std::string& checkpoint,
                                  std::function<absl::Status(ShardCore&)> task) {
  absl::Status status = wire::CheckName("model", model);
  if (status.ok()) status = wire::CheckName("checkpoint", checkpoint);
  if (!status.ok()) return Refuse(call, status);
  SubmitTask(call, QueuePlace::kBack, std::move(task));
}

void ShardServiceImpl::SubmitTask(Unary* call, QueuePlace place,
                                  std::function<absl::Status(ShardCore&)> task) {
  if (shared_.store == nullptr) return Refuse(call, NoDataDir());
  auto run = [this, call, task = std::move(task)](ShardCore& core) {
    const absl::Status alive = RefuseCancelled(call->context())();
    const absl::Status done = alive.ok() ? task(core) : alive;
    if (!done.ok()) shared_.metrics->RecordRefusal(done);
    call->End(done);
  };
  const absl::Status queued = shared_.sequencer->SubmitTask(std::move(run), place);
  if (!queued.ok()) Refuse(call, queued);
}

absl::Status ShardServiceImpl::NoDataDir() {
  return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kNoDataDir,
                          "this shard has no data directory: start it with --data-dir");
}

void ShardServiceImpl::Refuse(Unary* call, const absl::Status& why) {
  shared_.metrics->RecordRefusal(why);
  call->End(why);
}

grpc::ServerUnaryReactor* ShardServiceImpl::WriteCheckpoint(
    grpc::CallbackServerContext* context, const v1::WriteCheckpointRequest* request,
    v1::WriteCheckpointResponse* response) {
  Unary* const call = Start("WriteCheckpoint", context, *request);
  SubmitTask(
      call, request->model(), request->checkpoint(),
      [this, call, model = request->model(), checkpoint = request->checkpoint(),
       best_kept =
           std::vector<std::string>(request->best_kept().begin(), request->best_kept().end()),
       response](ShardCore& core) -> absl::Status {
        const ShardModel* const found = core.FindModel(model);
        if (found == nullptr) {
          return StatusWithReason(
              absl::StatusCode::kNotFound, reason::kUnknownModel,
              absl::StrCat("this shard has no model \"", model, "\": create it first"));
        }
        const absl::Duration start = shared_.clock->Now();
        ASSIGN_OR_RETURN(const ImageSize size, shared_.store->Write(*found, checkpoint));
        if (!best_kept.empty()) {
          RETURN_IF_ERROR(shared_.store->RemoveOthers(model, kBestCheckpointPrefix, best_kept));
        }
        shared_.metrics->RecordCheckpoint("write", shared_.clock->Now() - start, size.bytes);
        response->set_rows(size.rows);
        response->set_bytes(size.bytes);
        call->record().Sent(response->ByteSizeLong());
        return absl::OkStatus();
      });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::LoadCheckpoint(grpc::CallbackServerContext* context,
                                                           const v1::LoadCheckpointRequest* request,
                                                           v1::LoadCheckpointResponse* response) {
  Unary* const call = Start("LoadCheckpoint", context, *request);
  SubmitTask(call, request->model(), request->checkpoint(),
             [this, call, model = request->model(), checkpoint = request->checkpoint(),
              response](ShardCore& core) -> absl::Status {
               const absl::Duration start = shared_.clock->Now();
               ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> loaded,
                                shared_.store->Load(core, model, checkpoint));
               shared_.metrics->RecordCheckpoint("load", shared_.clock->Now() - start,
                                                 loaded->memory_bytes());
               int64_t rows = 0;
               for (const ShardTable& table : loaded->tables()) rows += table.stored().present();
               core.InstallModel(std::move(loaded));
               if (shared_.rows_replaced) RETURN_IF_ERROR(shared_.rows_replaced(core));
               response->set_rows(rows);
               call->record().Sent(response->ByteSizeLong());
               return absl::OkStatus();
             });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::DropModel(grpc::CallbackServerContext* context,
                                                      const v1::DropModelRequest* request,
                                                      v1::DropModelResponse* response) {
  Unary* const call = Start("DropModel", context, *request);
  absl::StatusOr<DropModelCommand> command = wire::DecodeDropModel(*request);
  // With a command log, starts do not load checkpoints.
  if (shared_.store == nullptr || shared_.log_commands || !command.ok()) {
    Submit(
        call, std::move(command), 0, /*control=*/true,
        [response](const Answer&) { return response->ByteSizeLong(); },
        LogOf(wire::LoggedKind::kDropModel, *request));
    return call;
  }
  // The checkpoint that a start loads goes first: else the model would come back.
  SubmitTask(call, request->model(), kLatestCheckpoint,
             [this, command = *std::move(command)](ShardCore& core) -> absl::Status {
               if (core.FindModel(command.model) != nullptr) {
                 RETURN_IF_ERROR(shared_.store->Remove(command.model, kLatestCheckpoint));
               }
               return core.Apply(command).reply->status;
             });
  return call;
}

}  // namespace dslide::shard

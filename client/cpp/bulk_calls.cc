#include "client/cpp/bulk_calls.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/client_callback.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/cpp/byte_slices.h"
#include "client/cpp/grpc_status.h"
#include "core/wire/bulk/bulk_frames.h"
#include "core/wire/request_id.h"

namespace dslide {
namespace {

using grpc::internal::RpcMethod;

// Reads one gather's answer, message by message, on gRPC's threads. Deletes itself.
class GatherReader final : public grpc::ClientReadReactor<grpc::ByteBuffer> {
 public:
  GatherReader(const BulkPeer& peer, v1::GatherRequest request, const wire::GatherTarget* target,
               std::function<void(absl::StatusOr<GatherReply>)> done)
      : peer_(peer),
        request_id_(wire::RequestIdOrNew(peer.request_id)),
        request_(std::move(request)),
        assembler_(target == nullptr ? wire::GatherAssembler() : wire::GatherAssembler(*target)),
        done_(std::move(done)),
        method_("/dslide.v1.ShardService/Gather", RpcMethod::SERVER_STREAMING) {}

  void Start(absl::Time deadline) {
    PrepareContext(context_, deadline, request_id_);
    peer_.counters->AddSent(WireMethod::kGather, request_.ByteSizeLong());
    grpc::internal::ClientCallbackReaderFactory<grpc::ByteBuffer>::Create(
        peer_.channel.get(), method_, &context_, &request_, this);
    StartRead(&message_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    peer_.counters->AddReceived(WireMethod::kGather, message_.Length());
    if (bad_.ok()) bad_ = assembler_.Add(TakeSlices(message_)->pieces);
    if (!bad_.ok()) {
      context_.TryCancel();
      return;
    }
    StartRead(&message_);
  }

  void OnDone(const grpc::Status& status) override {
    if (!bad_.ok()) {
      done_(bad_);
    } else if (!status.ok()) {
      done_(FromGrpc(status, peer_.name, "Gather", request_id_));
    } else {
      done_(std::move(assembler_).Finish());
    }
    delete this;
  }

 private:
  const BulkPeer peer_;
  const std::string request_id_;
  const v1::GatherRequest request_;
  wire::GatherAssembler assembler_;
  const std::function<void(absl::StatusOr<GatherReply>)> done_;
  const RpcMethod method_;
  grpc::ClientContext context_;
  grpc::ByteBuffer message_;
  absl::Status bad_;
};

// Sends one scatter. Lives on the stack of the waiting caller.
class ScatterWriter final : public grpc::ClientWriteReactor<grpc::ByteBuffer> {
 public:
  ScatterWriter(const BulkPeer& peer, std::shared_ptr<const ScatterCommand> command)
      : peer_(peer),
        request_id_(wire::RequestIdOrNew(peer.request_id)),
        command_(std::move(command)),
        messages_(wire::FrameScatter(*command_)),
        method_("/dslide.v1.ShardService/Scatter", RpcMethod::CLIENT_STREAMING) {}

  absl::StatusOr<v1::ScatterResponse> Run(absl::Time deadline) {
    PrepareContext(context_, deadline, request_id_);
    grpc::internal::ClientCallbackWriterFactory<grpc::ByteBuffer>::Create(
        peer_.channel.get(), method_, &context_, &response_, this);
    WriteNext();
    StartCall();
    done_.WaitForNotification();
    if (!status_.ok()) return FromGrpc(status_, peer_.name, "Scatter", request_id_);
    peer_.counters->AddReceived(WireMethod::kScatter, response_.ByteSizeLong());
    return std::move(response_);
  }

  void OnWriteDone(bool ok) override {
    message_.Clear();
    // When it failed, the end is near, and says why.
    if (ok && next_ < messages_.size()) WriteNext();
  }

  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }

 private:
  void WriteNext() {
    std::vector<grpc::Slice> slices;
    for (wire::FramePart& part : messages_[next_]) {
      if (!part.head.empty()) slices.emplace_back(part.head);
      if (!part.body.empty()) slices.push_back(OwnedSlice(part.body, command_));
    }
    message_ = grpc::ByteBuffer(slices.data(), slices.size());
    peer_.counters->AddSent(WireMethod::kScatter, message_.Length());
    if (++next_ < messages_.size()) {
      StartWrite(&message_);
    } else {
      StartWriteLast(&message_, grpc::WriteOptions());
    }
  }

  const BulkPeer& peer_;
  const std::string request_id_;
  const std::shared_ptr<const ScatterCommand> command_;
  std::vector<std::vector<wire::FramePart>> messages_;
  const RpcMethod method_;
  grpc::ClientContext context_;
  size_t next_ = 0;
  grpc::ByteBuffer message_;
  v1::ScatterResponse response_;
  grpc::Status status_;
  absl::Notification done_;
};

}  // namespace

void StartGather(const BulkPeer& peer, v1::GatherRequest request, const wire::GatherTarget* target,
                 absl::Time deadline, std::function<void(absl::StatusOr<GatherReply>)> done) {
  auto* reader = new GatherReader(peer, std::move(request), target, std::move(done));
  reader->Start(deadline);
}

absl::StatusOr<v1::ScatterResponse> RunScatter(const BulkPeer& peer,
                                               std::shared_ptr<const ScatterCommand> command,
                                               absl::Time deadline) {
  return ScatterWriter(peer, std::move(command)).Run(deadline);
}

}  // namespace dslide

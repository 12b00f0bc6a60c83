#include "client/cpp/bulk_calls.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/client_callback.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/cpp/grpc_status.h"
#include "core/net/rpc/byte_slices.h"
#include "core/wire/bulk/bulk_frames.h"
#include "core/wire/request_id.h"
// How gRPC serialises messages; its own header for that lies elsewhere in each version.
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide {
namespace {

// gRPC's interface for calls by name knows streams both ways. On the wire they are what the method
// is: a stream of one message in the other direction.
template <typename Request, typename Response>
void PrepareCall(const BulkPeer& peer, const char* method, grpc::ClientContext* context,
                 grpc::ClientBidiReactor<Request, Response>* reactor) {
  grpc::TemplatedGenericStub<Request, Response>(peer.channel)
      .PrepareBidiStreamingCall(context, method, grpc::StubOptions(), reactor);
}

// Reads one gather's answer, message by message, on gRPC's threads. Deletes itself.
class GatherReader final : public grpc::ClientBidiReactor<v1::GatherRequest, grpc::ByteBuffer> {
 public:
  GatherReader(const BulkPeer& peer, v1::GatherRequest request, const wire::GatherTarget* target,
               std::function<void(absl::StatusOr<GatherReply>)> done)
      : peer_(peer),
        request_id_(wire::RequestIdOrNew(peer.request_id)),
        request_(std::move(request)),
        assembler_(target == nullptr ? wire::GatherAssembler() : wire::GatherAssembler(*target)),
        done_(std::move(done)) {}

  void Start(absl::Time deadline) {
    PrepareContext(context_, deadline, request_id_);
    peer_.counters->AddSent(WireMethod::kGather, request_.ByteSizeLong());
    PrepareCall(peer_, "/dslide.v1.ShardService/Gather", &context_, this);
    StartWriteLast(&request_, grpc::WriteOptions());
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
  grpc::ClientContext context_;
  grpc::ByteBuffer message_;
  absl::Status bad_;
};

// Sends one scatter. Lives on the stack of the waiting caller.
class ScatterWriter final : public grpc::ClientBidiReactor<grpc::ByteBuffer, v1::ScatterResponse> {
 public:
  ScatterWriter(const BulkPeer& peer, std::shared_ptr<const ScatterCommand> command)
      : peer_(peer),
        request_id_(wire::RequestIdOrNew(peer.request_id)),
        command_(std::move(command)),
        messages_(wire::FrameScatter(*command_)) {}

  absl::StatusOr<v1::ScatterResponse> Run(absl::Time deadline) {
    PrepareContext(context_, deadline, request_id_);
    PrepareCall(peer_, "/dslide.v1.ShardService/Scatter", &context_, this);
    WriteNext();
    StartRead(&response_);
    StartCall();
    done_.WaitForNotification();
    if (!status_.ok()) return FromGrpc(status_, peer_.name, "Scatter", request_id_);
    if (!answered_) {
      return absl::InternalError(absl::StrCat(peer_.name, ", Scatter: ended without an answer"));
    }
    peer_.counters->AddReceived(WireMethod::kScatter, response_.ByteSizeLong());
    return std::move(response_);
  }

  void OnWriteDone(bool ok) override {
    message_.Clear();
    // When it failed, the end is near, and says why.
    if (ok && next_ < messages_.size()) WriteNext();
  }

  void OnReadDone(bool ok) override { answered_ = ok; }

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
  grpc::ClientContext context_;
  size_t next_ = 0;
  grpc::ByteBuffer message_;
  v1::ScatterResponse response_;
  bool answered_ = false;
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

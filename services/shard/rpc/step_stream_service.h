// The hot path: one bidirectional stream of step operations.

#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/net/rpc/byte_slices.h"
#include "dslide/v1/shard.pb.h"
#include "services/shard/rpc/shard_call_service.h"

namespace dslide::shard {

// Requests are decoded as they arrive, queued in stream order and answered in stream order. An
// error answers its own request. Owns itself: deleted when the call is over. Messages are raw bytes
// here (v1.StepRequest, v1.StepResponse): a command log keeps those that were received.
//
// Thread safety: gRPC's and the sequencer's threads call it as they please.
class StepStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public Stoppable {
 public:
  StepStream(ServiceContext& shared, grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Stop() override;

 private:
  // A request that was read and whose answer is not written yet.
  struct Slot {
    uint64_t sequence = 0;
    int64_t bytes = 0;
    bool ready = false;
    Answer answer;
    TableOperation what = {};
  };

  // What to start once the lock is free; none of it may be started twice.
  struct Next {
    bool write = false;
    Slot slot;  // to write
    bool read = false;
    bool finish = false;
  };

  void Handle(const std::shared_ptr<const MessageSlices>& message, uint64_t id);
  void Complete(uint64_t id, Answer answer);
  Next NextAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(const Next& next);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ServiceContext& shared_;
  grpc::CallbackServerContext* const context_;
  const Peer peer_;
  CallRecord record_;
  grpc::ByteBuffer received_;  // of the read that is out
  grpc::ByteBuffer sending_;   // of the write that is out
  v1::StepRequest request_;    // that is being decoded; keeps its memory
  v1::StepResponse response_;  // that is being encoded; keeps its memory

  absl::Mutex mu_;
  std::deque<Slot> slots_ ABSL_GUARDED_BY(mu_);
  uint64_t first_id_ ABSL_GUARDED_BY(mu_) = 0;  // of slots_.front()
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool reading_ ABSL_GUARDED_BY(mu_) = false;
  bool handling_ ABSL_GUARDED_BY(mu_) = false;  // a message that was read is being decoded
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool reads_done_ ABSL_GUARDED_BY(mu_) = false;  // the client has half-closed, or is gone
  bool broken_ ABSL_GUARDED_BY(mu_) = false;      // nobody reads answers any more
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dslide::shard

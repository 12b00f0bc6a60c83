// Rows in bulk: Gather answers in chunks, Scatter arrives in chunks. Each object is one call and
// owns itself: deleted when the call is over.
//
// Messages are raw bytes here. A gathered row is copied once, by the core, from its table into the
// slice that gRPC sends, and the first rows travel while the last are still being copied (not where
// commands are logged: there an answer waits for the disk); a scattered one is read in the slices
// that gRPC received.

#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/protocol/row_sink.h"
#include "core/system/buffer_pool.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/log/logged_command.h"
#include "services/shard/rpc/shard_call_service.h"

namespace dslide::shard {

class GatherCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, private RowSink {
 public:
  GatherCall(ServiceContext& shared, grpc::CallbackServerContext* context,
             const grpc::ByteBuffer& request);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  // A message to be sent, somewhere inside a buffer of the pool.
  struct Message {
    PooledBuffer buffer;
    int64_t start = 0;
    int64_t size = 0;
    bool filled = false;
  };
  // What is to be done after a change of the state, without the lock.
  struct Next {
    std::optional<grpc::Slice> write;
    bool finish = false;
  };

  void Start(grpc::CallbackServerContext* context, const grpc::ByteBuffer& request);
  absl::StatusOr<const RowChunks*> Begin(int64_t rows, bool has_bias,
                                         const GatherReply& reply) override;
  void Filled(size_t chunk) override;
  void Answered(const absl::Status& status);
  Next NextAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(Next next);

  ServiceContext& shared_;
  CallRecord record_;
  ActivationType element_type_ = ActivationType::kF32;
  RowChunks chunks_;  // inside messages_; of the sequencer's thread

  absl::Mutex mu_;
  std::string first_ ABSL_GUARDED_BY(mu_);  // a message without rows before the others; or empty
  std::vector<Message> messages_ ABSL_GUARDED_BY(mu_);  // with rows
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;                // of messages_, to be sent
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;  // nobody reads any more
  // Of the command. Rows are being copied until it is there, also when nobody wants them.
  std::optional<absl::Status> answer_ ABSL_GUARDED_BY(mu_);
  grpc::ByteBuffer sending_;  // of the one who writes
};

class ScatterCall final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  // `response` lives as long as the call.
  ScatterCall(ServiceContext& shared, grpc::CallbackServerContext* context,
              grpc::ByteBuffer* response);

  void OnReadDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  absl::Status Add();
  void Submit(Command command, wire::LoggedCommand logged);
  void Refuse(const absl::Status& refusal);
  void End(const absl::Status& status);

  ServiceContext& shared_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  CallRecord record_;
  wire::ScatterAssembler assembler_;
  wire::LoggedCommand logged_;  // the messages so far, for the command log
  grpc::ByteBuffer request_;
};

}  // namespace dslide::shard

// Rows in bulk: Gather answers in chunks, Scatter arrives in chunks. Each object is one call and
// owns itself: deleted when the call is over.
//
// Messages are raw bytes here. A gathered row is copied once, by the core, from its table into the
// slice that gRPC sends; a scattered one is read in the slices that gRPC received.

#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/model/row_sink.h"
#include "core/wire/bulk_codec.h"
#include "core/wire/logged_command.h"
#include "services/shard/shard_call_service.h"

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
  };

  void Start(grpc::CallbackServerContext* context, const grpc::ByteBuffer& request);
  absl::StatusOr<const RowChunks*> Begin(int64_t rows, bool has_bias,
                                         const GatherReply& reply) override;
  void WriteNext();

  ServiceContext& shared_;
  CallRecord record_;
  ActivationType element_type_ = ActivationType::kF32;
  // Of the sequencer's thread until the answer is there.
  std::string first_;              // a message without rows in front of the others; may be empty
  std::vector<Message> messages_;  // with rows
  RowChunks chunks_;               // inside messages_
  size_t next_ = 0;
  grpc::ByteBuffer sending_;
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

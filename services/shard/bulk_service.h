// Rows in bulk: Gather answers in chunks, Scatter arrives in chunks. Each object is one call and
// owns itself: deleted when the call is over.

#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>

#include "core/wire/row_codec.h"
#include "dslide/v1/shard.pb.h"
#include "services/shard/shard_call_service.h"

namespace dslide::shard {

class GatherCall final : public grpc::ServerWriteReactor<v1::GatherResponse> {
 public:
  GatherCall(ServiceContext& shared, grpc::CallbackServerContext* context,
             const v1::GatherRequest& request);

  void OnWriteDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  void Start(grpc::CallbackServerContext* context, const v1::GatherRequest& request);
  void WriteNext();

  ServiceContext& shared_;
  CallRecord record_;
  ActivationType element_type_ = ActivationType::kF32;
  Answer answer_;
  std::optional<wire::GatherChunker> chunker_;  // reads answer_
  v1::GatherResponse response_;
};

class ScatterCall final : public grpc::ServerReadReactor<v1::ScatterRequest> {
 public:
  // `response` lives as long as the call.
  ScatterCall(ServiceContext& shared, grpc::CallbackServerContext* context,
              v1::ScatterResponse* response);

  void OnReadDone(bool ok) override;
  void OnDone() override { delete this; }

 private:
  absl::Status Add();
  void Submit(Command command);
  void Refuse(const absl::Status& refusal);
  void End(const absl::Status& status);

  ServiceContext& shared_;
  grpc::CallbackServerContext* const context_;
  v1::ScatterResponse* const response_;
  CallRecord record_;
  wire::ScatterAssembler assembler_;
  v1::ScatterRequest request_;
};

}  // namespace dslide::shard

// Models and clients: Create, Describe, Drop, Hello and CloseClient between the wire and the core,
// and the chunks of a slot map.
//
// Decoders of requests return InvalidArgument with a reason word; those of answers, for clients,
// Internal when the answer contradicts itself.

#pragma once

#include "absl/status/statusor.h"
#include "core/partition/slot_map.h"
#include "core/protocol/commands.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {

// owners: u16[num_slots].
absl::StatusOr<SlotMap> DecodeSlotMap(const v1::SlotAssignment& assignment);
void EncodeSlotMap(const SlotMap& map, v1::SlotAssignment* out);

// Also checks that there is exactly one slot map for each num_slots of the spec's tables, and that
// the shard's ordinal lies within all of them.
absl::StatusOr<CreateModelCommand> DecodeCreateModel(const v1::CreateModelRequest& request);
void EncodeCreateModel(const CreateModelCommand& command, v1::CreateModelRequest* out);

absl::StatusOr<DropModelCommand> DecodeDropModel(const v1::DropModelRequest& request);
absl::StatusOr<DescribeModelCommand> DecodeDescribeModel(const v1::DescribeModelRequest& request);
void EncodeDescribeModel(const DescribeModelReply& reply, v1::DescribeModelResponse* out);
absl::StatusOr<DescribeModelReply> DecodeDescribeModel(const v1::DescribeModelResponse& response);

absl::StatusOr<HelloCommand> DecodeHello(const v1::HelloRequest& request);
void EncodeHello(const HelloCommand& command, v1::HelloRequest* out);
void EncodeHello(const HelloReply& reply, v1::HelloResponse* out);
HelloReply DecodeHello(const v1::HelloResponse& response);
absl::StatusOr<CloseClientCommand> DecodeCloseClient(const v1::CloseClientRequest& request);
void EncodeCloseClient(const CloseClientCommand& command, v1::CloseClientRequest* out);

}  // namespace dslide::wire

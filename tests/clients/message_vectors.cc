#include "tests/clients/message_vectors.h"

#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/step_answer_codec.h"
#include "core/wire/steps/step_codec.h"
#include "tests/clients/vector_section.h"

namespace dslide {
namespace {

bool PrintMessage(const char* what, const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto printed = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!printed.ok()) {
    std::cerr << what << ": " << printed.ToString() << '\n';
    return false;
  }
  const std::string wire = message.SerializeAsString();
  VectorSection section("message", {{"type", message.GetDescriptor()->name()},
                                    {"what", what},
                                    {"json", VectorSection::Json::parse(text)}});
  section.Add("bytes", "<u1", {static_cast<int64_t>(wire.size())},
              std::vector<uint8_t>(wire.begin(), wire.end()));
  section.Print();
  return true;
}

Envelope SomeEnvelope(uint64_t sequence) {
  Envelope envelope;
  envelope.job = "job";
  for (uint8_t i = 0; i < 16; ++i) envelope.client[i] = static_cast<uint8_t>(240 + i);
  envelope.sequence = sequence;
  envelope.first_incomplete = sequence - 1;
  envelope.generation = (uint64_t{1} << 53) + 1;  // no double has it
  envelope.topology_version = 2;
  envelope.model = "model";
  return envelope;
}

RowBlock SomeRowsOfTwo() {
  return {.rows = {RowId(3), RowId(300)},
          .dim = 2,
          .values = {0.5f, -1.0f, 1.0f / 3, 65504.0f},
          .biases = {0.0f, -0.25f}};
}

bool PrintStepRequests(wire::StepFormat format, const char* what) {
  const StepOp operations[] = {
      EmbedForwardOp{.table = "input",
                     .offsets = {0, 3, 3},
                     .rows = {RowId(5), RowId(6), RowId(300)},
                     .values = {1.0f, 0.5f, 0.1f}},
      HeadForwardOp{.table = "labels",
                    .dim = 2,
                    .hidden = {1.0f, 0.3f, 0.0f, 1.00390625f},
                    .fingerprints = {1, 65535, 0, 77},
                    .label_offsets = {0, 1, 2},
                    .labels = {RowId(9), RowId(130)},
                    .label_targets = {1.0f, 0.5f},
                    .recall_samples = {1}},
      HeadBackwardOp{.table = "labels",
                     .log_partitions = {3.5f, -0.125f},
                     .scale = 0.5f,
                     .learning_rate = 0.001},
      EmbedBackwardOp{.table = "input",
                      .dim = 2,
                      .gradient = {0.0f, 0.1f, -0.2f, 0.0f},
                      .learning_rate = 0.001},
      DenseGatherOp{.table = "hidden"},
      DenseScatterOp{.table = "hidden", .gradients = SomeRowsOfTwo(), .learning_rate = 0.01}};
  uint64_t sequence = 7;
  for (const StepOp& operation : operations) {
    const StepCommand command{
        .envelope = SomeEnvelope(++sequence), .step = 4, .first_open_step = 3, .op = operation};
    v1::StepRequest request;
    wire::EncodeStepRequest(command, format, &request);
    if (!PrintMessage(what, request)) return false;
  }
  return true;
}

bool PrintStepReplies() {
  const float none = -std::numeric_limits<float>::infinity();
  HeadForwardOutput head;
  head.max_logits = {2.5f, none};
  head.exp_sums = {3.0f, 0.0f};
  head.label_logits = {1.25f};
  head.active_pairs = 12;
  head.distinct_rows = 10;
  const Reply replies[] = {
      {.status = absl::OkStatus(),
       .body = EmbedForwardReply{.partial = {.rows = 1, .cols = 2, .data = {0.3f, -7.0f}}}},
      {.status = absl::OkStatus(), .body = HeadForwardReply{.output = head}},
      {.status = StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kForeignRow,
                                  "row 91 is not of this shard"),
       .body = {}}};
  for (const Reply& reply : replies) {
    v1::StepResponse response;
    wire::EncodeStepResponse(8, 3, reply, ActivationType::kBf16, &response);
    if (!PrintMessage("bf16", response)) return false;
  }
  return true;
}

bool PrintBulkMessages() {
  wire::GatherCall call;
  call.command.model = "model";
  call.command.table = "labels";
  call.command.topology_version = 2;
  call.command.rows = {RowId(3), RowId(300)};
  call.element_type = ActivationType::kBf16;
  v1::GatherRequest gather;
  wire::EncodeGatherRequest(call, &gather);
  if (!PrintMessage("bf16", gather)) return false;
  const ScatterCommand scatter{.envelope = SomeEnvelope(9),
                               .table = "labels",
                               .mode = ScatterMode::kAdd,
                               .rows = SomeRowsOfTwo()};
  // So small that every row is a message.
  for (const v1::ScatterRequest& part : wire::EncodeScatter(scatter, ActivationType::kF32, 1)) {
    if (!PrintMessage("chunks of one row", part)) return false;
  }
  TopKCommand query;
  query.model = "model";
  query.table = "labels";
  query.batch = 1;
  query.dim = 2;
  query.hidden = {1.0f, 0.3f};
  query.k = 5;
  v1::TopKRequest top_k;
  wire::EncodeTopKRequest(query, ActivationType::kF32, &top_k);
  return PrintMessage("exact", top_k);
}

}  // namespace

bool PrintMessages() {
  return PrintStepRequests({.activations = ActivationType::kF32}, "f32") &&
         PrintStepRequests({.activations = ActivationType::kBf16, .packed = true},
                           "bf16, packed") &&
         PrintStepReplies() && PrintBulkMessages();
}

}  // namespace dslide

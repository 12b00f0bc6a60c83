#include "core/wire/log/logged_command.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/base/status_macros.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/control_codec.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/steps/step_answer_codec.h"
#include "core/wire/steps/step_request.h"
#include "dslide/v1/shard.pb.h"

namespace dslide::wire {
namespace {

constexpr LoggedKind kNewestKind = LoggedKind::kSettle;

absl::Status Unreadable(LoggedKind kind, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("a logged ", LoggedKindName(kind), " cannot be read back: ", why));
}

template <typename Message>
absl::StatusOr<Message> Parse(LoggedKind kind, absl::string_view payload) {
  Message message;
  if (message.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) return message;
  return Unreadable(kind, "its bytes are no such message");
}

absl::StatusOr<Command> DecodeScatter(absl::string_view payload) {
  // What was too large was refused, and is not here.
  ScatterAssembler assembler(INT64_MAX);
  ByteReader in(payload);
  while (!in.AtEnd()) {
    const absl::string_view message = in.Raw(in.Number<uint32_t>());
    if (!in.ok()) return Unreadable(LoggedKind::kScatter, "it is cut");
    RETURN_IF_ERROR(assembler.Add(absl::MakeConstSpan(&message, 1), /*memory=*/nullptr));
  }
  ASSIGN_OR_RETURN(ScatterCommand command, std::move(assembler).Finish());
  return command;
}

absl::StatusOr<Command> DecodeRefused(absl::string_view payload) {
  ByteReader in(payload);
  const absl::string_view envelope_bytes = in.Raw(in.Number<uint32_t>());
  if (!in.ok()) return Unreadable(LoggedKind::kRefused, "it is cut");
  ASSIGN_OR_RETURN(const auto envelope,
                   Parse<v1::RequestEnvelope>(LoggedKind::kRefused, envelope_bytes));
  ASSIGN_OR_RETURN(const auto error, Parse<v1::StepError>(LoggedKind::kRefused, in.Rest()));
  RefusedCommand command;
  ASSIGN_OR_RETURN(command.envelope, DecodeEnvelope(envelope));
  command.refusal = DecodeStepError(error);
  return command;
}

absl::StatusOr<Command> DecodeOwnership(absl::string_view payload) {
  ByteReader in(payload);
  SetOwnershipCommand command;
  command.shard = ShardId(in.Number<int32_t>());
  command.generation = in.Number<uint64_t>();
  command.topology_version = in.Number<uint64_t>();
  if (!in.AtEnd()) return Unreadable(LoggedKind::kOwnership, "it has another size");
  return command;
}

// Parses the request and hands it to its decoder.
template <typename Request, typename Decode>
absl::StatusOr<Command> DecodeWith(LoggedKind kind, absl::string_view payload,
                                   const Decode& decode) {
  ASSIGN_OR_RETURN(const Request request, Parse<Request>(kind, payload));
  ASSIGN_OR_RETURN(auto command, decode(request));
  return Command(std::move(command));
}

absl::StatusOr<Command> DecodeKind(LoggedKind kind, absl::string_view payload) {
  switch (kind) {
    case LoggedKind::kStep:
      return DecodeWith<v1::StepRequest>(kind, payload, DecodeStepMutation);
    case LoggedKind::kScatter:
      return DecodeScatter(payload);
    case LoggedKind::kCreateModel:
      return DecodeWith<v1::CreateModelRequest>(kind, payload, DecodeCreateModel);
    case LoggedKind::kDropModel:
      return DecodeWith<v1::DropModelRequest>(kind, payload, DecodeDropModel);
    case LoggedKind::kHello:
      return DecodeWith<v1::HelloRequest>(kind, payload,
                                          [](const auto& request) { return DecodeHello(request); });
    case LoggedKind::kCloseClient:
      return DecodeWith<v1::CloseClientRequest>(kind, payload, DecodeCloseClient);
    case LoggedKind::kRefused:
      return DecodeRefused(payload);
    case LoggedKind::kOwnership:
      return DecodeOwnership(payload);
    case LoggedKind::kNone:
    case LoggedKind::kLimits:
    case LoggedKind::kSettle:
      break;
  }
  return Unreadable(kind, "it is no command");
}

}  // namespace

LoggedCommand LogBytes(LoggedKind kind, std::string bytes) {
  const auto owned = std::make_shared<const std::string>(std::move(bytes));  // the record's
  return {.kind = kind, .payload = {*owned}, .memory = {owned}};
}

void AddScatterMessage(absl::Span<const absl::string_view> message,
                       std::shared_ptr<const void> memory, LoggedCommand* out) {
  uint32_t size = 0;
  for (const absl::string_view piece : message) size += static_cast<uint32_t>(piece.size());
  ByteWriter sized;
  sized.Number(size);
  LoggedCommand prefix = LogBytes(LoggedKind::kScatter, std::move(sized).Take());
  out->kind = LoggedKind::kScatter;
  out->payload.push_back(prefix.payload.front());
  out->payload.insert(out->payload.end(), message.begin(), message.end());
  out->memory.push_back(std::move(prefix.memory.front()));
  out->memory.push_back(std::move(memory));
}

LoggedCommand LogRefused(const RefusedCommand& command) {
  v1::RequestEnvelope envelope;
  EncodeEnvelope(command.envelope, &envelope);
  v1::StepError error;
  EncodeStepError(command.refusal, &error);
  const std::string envelope_bytes = envelope.SerializeAsString();
  ByteWriter out;
  out.Number(static_cast<uint32_t>(envelope_bytes.size()));
  out.Raw(envelope_bytes);
  out.Raw(error.SerializeAsString());
  return LogBytes(LoggedKind::kRefused, std::move(out).Take());
}

LoggedCommand LogCloseClient(const CloseClientCommand& command) {
  v1::CloseClientRequest request;
  EncodeCloseClient(command, &request);
  return LogBytes(LoggedKind::kCloseClient, request.SerializeAsString());
}

LoggedCommand LogOwnership(const SetOwnershipCommand& command) {
  ByteWriter out;
  out.Number(command.shard.value());
  out.Number(command.generation);
  out.Number(command.topology_version);
  return LogBytes(LoggedKind::kOwnership, std::move(out).Take());
}

absl::StatusOr<Command> DecodeLogged(LoggedKind kind, absl::string_view payload) {
  if (kind > kNewestKind) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it is of kind ", static_cast<int>(kind), ", this version reads kinds 1 to ",
        static_cast<int>(kNewestKind), ": use the version that wrote it or a later one"));
  }
  absl::StatusOr<Command> command = DecodeKind(kind, payload);
  if (command.ok() || absl::IsDataLoss(command.status())) return command;
  return Unreadable(kind, command.status().message());
}

std::string LoggedKindName(LoggedKind kind) {
  constexpr const char* kNames[] = {"nothing",    "step",   "scatter",      "create-model",
                                    "drop-model", "hello",  "close-client", "refused",
                                    "ownership",  "limits", "settle"};
  const auto number = static_cast<size_t>(kind);
  if (number < std::size(kNames)) return kNames[number];
  return absl::StrCat("kind ", number);
}

}  // namespace dslide::wire

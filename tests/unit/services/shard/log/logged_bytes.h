// Commands as bytes, as a log keeps them.

#pragma once

#include <memory>
#include <string>
#include <variant>

#include "core/protocol/commands.h"
#include "core/wire/control_codec.h"
#include "core/wire/log/logged_command.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/step_codec.h"

namespace dslide::shard {

template <typename Message>
inline wire::LoggedCommand Bytes(wire::LoggedKind kind, const Message& message) {
  return wire::LogBytes(kind, message.SerializeAsString());
}

// The command as it would have arrived over the network, for the log.
inline wire::LoggedCommand LogOf(const Command& command) {
  if (const auto* step = std::get_if<StepCommand>(&command)) {
    v1::StepRequest request;
    wire::EncodeStepRequest(*step, {}, &request);
    return Bytes(wire::LoggedKind::kStep, request);
  }
  if (const auto* scatter = std::get_if<ScatterCommand>(&command)) {
    wire::LoggedCommand logged;
    for (const auto& message : wire::EncodeScatter(*scatter, ActivationType::kF32, 100)) {
      const auto bytes = std::make_shared<const std::string>(message.SerializeAsString());
      const absl::string_view piece = *bytes;
      wire::AddScatterMessage(absl::MakeConstSpan(&piece, 1), bytes, &logged);
    }
    return logged;
  }
  if (const auto* create = std::get_if<CreateModelCommand>(&command)) {
    v1::CreateModelRequest request;
    wire::EncodeCreateModel(*create, &request);
    return Bytes(wire::LoggedKind::kCreateModel, request);
  }
  if (const auto* drop = std::get_if<DropModelCommand>(&command)) {
    v1::DropModelRequest request;
    request.set_model(drop->model);
    return Bytes(wire::LoggedKind::kDropModel, request);
  }
  if (const auto* hello = std::get_if<HelloCommand>(&command)) {
    v1::HelloRequest request;
    wire::EncodeHello(*hello, &request);
    return Bytes(wire::LoggedKind::kHello, request);
  }
  if (const auto* bye = std::get_if<CloseClientCommand>(&command)) {
    v1::CloseClientRequest request;
    wire::EncodeCloseClient(*bye, &request);
    return Bytes(wire::LoggedKind::kCloseClient, request);
  }
  if (const auto* refused = std::get_if<RefusedCommand>(&command)) {
    return wire::LogRefused(*refused);
  }
  return wire::LogOwnership(std::get<SetOwnershipCommand>(command));
}

}  // namespace dslide::shard

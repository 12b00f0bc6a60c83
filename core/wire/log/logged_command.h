// Commands as a log keeps them: the bytes of the request as it was received, and how to read them
// back by the same code that read them first.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/protocol/commands.h"

namespace dslide::wire {

// Stored in logs: numbers are never given a new meaning.
enum class LoggedKind : uint8_t {
  kNone = 0,         // nothing to log
  kStep = 1,         // bytes of v1.StepRequest
  kScatter = 2,      // u32 size and bytes of each v1.ScatterRequest, in order
  kCreateModel = 3,  // bytes of v1.CreateModelRequest
  kDropModel = 4,    // bytes of v1.DropModelRequest
  kHello = 5,        // bytes of v1.HelloRequest
  kCloseClient = 6,  // bytes of v1.CloseClientRequest
  // A mutation whose content was refused. What was refused is not kept, but with what: u32 size and
  // bytes of v1.RequestEnvelope, then bytes of v1.StepError.
  kRefused = 7,
  kOwnership = 8,  // i32 shard, u64 generation, u64 topology version
  // Not commands; the log's owner reads them.
  kLimits = 9,
  kSettle = 10,  // builds of hash tables that are under way were finished, for an image
};

struct LoggedCommand {
  LoggedKind kind = LoggedKind::kNone;
  // [any] The record's payload in pieces.
  std::vector<absl::string_view> payload;
  // What the pieces point into; shared with the command and the transport.
  std::vector<std::shared_ptr<const void>> memory;
};

// A record of one piece.
LoggedCommand LogBytes(LoggedKind kind, std::string bytes);
// The messages of a scatter: adds one that lives as long as `memory`.
void AddScatterMessage(absl::Span<const absl::string_view> message,
                       std::shared_ptr<const void> memory, LoggedCommand* out);
LoggedCommand LogRefused(const RefusedCommand& command);
LoggedCommand LogCloseClient(const CloseClientCommand& command);
LoggedCommand LogOwnership(const SetOwnershipCommand& command);

// The command of a record. It may point into `payload`, which must live until it was applied.
// Errors: DataLoss when the record is none of a command; FailedPrecondition for a kind that only
// later versions know.
absl::StatusOr<Command> DecodeLogged(LoggedKind kind, absl::string_view payload);

// A word for the kind, for people: "step"; "kind 77" for one that this version does not know.
std::string LoggedKindName(LoggedKind kind);

}  // namespace dslide::wire

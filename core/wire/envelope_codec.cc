#include "core/wire/envelope_codec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"
#include "core/wire/arrays/array_codec.h"

namespace dslide::wire {
namespace {

constexpr size_t kMaxNameBytes = 64;
// Counters near the end of their range would wrap.
constexpr uint64_t kMaxSequence = uint64_t{1} << 62;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

}  // namespace

absl::Status CheckName(absl::string_view field, absl::string_view name) {
  if (!name.empty() && name.size() <= kMaxNameBytes &&
      std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return absl::OkStatus();
  }
  return Refusal(reason::kBadName, field,
                 absl::StrCat("is \"", EscapeForLog(name, kMaxNameBytes),
                              "\", must be 1 to 64 of a-z, 0-9 and '-'"));
}

absl::StatusOr<ClientId> DecodeClientId(absl::string_view field, const std::string& bytes) {
  ClientId client;
  if (bytes.size() != client.size()) {
    return Refusal(
        reason::kBadClientId, field,
        absl::StrCat("has ", bytes.size(), " bytes, must have 16, drawn at random per process"));
  }
  std::copy(bytes.begin(), bytes.end(), client.begin());
  return client;
}

std::string EncodeClientId(const ClientId& client) {
  return std::string(client.begin(), client.end());
}

absl::StatusOr<Envelope> DecodeEnvelope(const v1::RequestEnvelope& envelope) {
  Envelope decoded;
  RETURN_IF_ERROR(CheckName("envelope.job", envelope.job()));
  RETURN_IF_ERROR(CheckName("envelope.model", envelope.model()));
  ASSIGN_OR_RETURN(decoded.client, DecodeClientId("envelope.client_id", envelope.client_id()));
  if (envelope.first_incomplete() < 1 || envelope.first_incomplete() > envelope.sequence()) {
    return Refusal(
        reason::kBadSequence, "envelope.first_incomplete",
        absl::StrCat("is ", envelope.first_incomplete(), " with sequence ", envelope.sequence(),
                     ", must be 1 <= first_incomplete <= sequence"));
  }
  if (envelope.sequence() > kMaxSequence) {
    return Refusal(reason::kBadSequence, "envelope.sequence",
                   absl::StrCat("is ", envelope.sequence(), ", must be at most ", kMaxSequence,
                                ": it counts mutations from 1"));
  }
  decoded.job = envelope.job();
  decoded.model = envelope.model();
  decoded.sequence = envelope.sequence();
  decoded.first_incomplete = envelope.first_incomplete();
  decoded.generation = envelope.generation();
  decoded.topology_version = envelope.topology_version();
  return decoded;
}

void EncodeEnvelope(const Envelope& envelope, v1::RequestEnvelope* out) {
  out->set_job(envelope.job);
  out->set_client_id(EncodeClientId(envelope.client));
  out->set_sequence(envelope.sequence);
  out->set_first_incomplete(envelope.first_incomplete);
  out->set_generation(envelope.generation);
  out->set_topology_version(envelope.topology_version);
  out->set_model(envelope.model);
}

}  // namespace dslide::wire

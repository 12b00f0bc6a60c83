#include "services/shard/rpc/client_owners.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "services/shard/sequencer/step_gate.h"

namespace dslide::shard {
namespace {

constexpr size_t kFewest = 8192;

}  // namespace

const ClientId* ClientOf(const Command& command) {
  if (const auto* hello = std::get_if<HelloCommand>(&command)) return &hello->client;
  if (const auto* bye = std::get_if<CloseClientCommand>(&command)) return &bye->client;
  return SequencedClient(command);
}

absl::Status ClientOwners::Check(const ClientId& client, const PeerIdentity& peer) {
  const auto known = owners_.find(client);
  if (known == owners_.end()) {
    if (peer != nullptr) owners_.emplace(client, peer);
    return absl::OkStatus();
  }
  if (peer != nullptr && (peer == known->second || *peer == *known->second)) {
    return absl::OkStatus();
  }
  // Not whose it is: that is nobody's business.
  return StatusWithReason(
      absl::StatusCode::kPermissionDenied, reason::kForeignClient,
      absl::StrCat("client ", ShortName(client),
                   " belongs to the holder of another certificate: use a client id of your own, or "
                   "the certificate with which it said Hello"));
}

void ClientOwners::KeepOpen(const ClientTable& clients) {
  std::erase_if(owners_,
                [&](const auto& entry) { return !clients.clients().contains(entry.first); });
  crowded_at_ = std::max(kFewest, 2 * owners_.size());
}

}  // namespace dslide::shard

// Whose clients are whose: between peers that show certificates, a client id belongs to the holder
// of the certificate that first used it.
//
// Kept beside the state, not in it: no command says who had sent it. So a process that starts knows
// no owner, and whoever comes first with an id then is its owner.

#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/protocol/commands.h"
#include "services/shard/state/client_table.h"

namespace dslide::shard {

// Who a peer is, by its certificate. Shared by the calls of a stream; null: nobody can tell.
using PeerIdentity = std::shared_ptr<const std::string>;

// The client in whose name a command comes; null: in nobody's.
const ClientId* ClientOf(const Command& command);

// Not thread-safe: of the thread that applies commands.
class ClientOwners {
 public:
  // Makes `peer` the client's owner if nobody is. A peer without an identity owns nothing, and may
  // use what nobody owns.
  // Errors: PermissionDenied FOREIGN_CLIENT.
  absl::Status Check(const ClientId& client, const PeerIdentity& peer);

  // There are many more than there were after the last KeepOpen(): time for another one.
  bool crowded() const { return owners_.size() >= crowded_at_; }
  // Forgets the owners of clients that are not open.
  void KeepOpen(const ClientTable& clients);

  size_t size() const { return owners_.size(); }

 private:
  std::map<ClientId, PeerIdentity> owners_;
  size_t crowded_at_ = 8192;
};

}  // namespace dslide::shard

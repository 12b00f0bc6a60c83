// ShardAdmin over gRPC.

#pragma once

#include <memory>

#include "services/common/server/transport.h"
#include "services/coordinator/membership/shard_admin.h"

namespace dslide::coordinator {

// One channel per address, opened with `channels` on first use and kept.
std::unique_ptr<ShardAdmin> MakeShardAdminClient(ServiceChannelFactory channels);

}  // namespace dslide::coordinator

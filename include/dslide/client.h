// The C++ client of a dslide cluster: models, rows, predictions and step streams over all shards.
// Link dslide::client (CMake) or ask pkg-config for dslide-client. docs/start/client-cpp.md
// explains it.

#pragma once

#include "client/cpp/cluster_client.h"
#include "client/cpp/shard_stream.h"

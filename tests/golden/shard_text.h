// Everything that a shard's files bring back, as text that a person can read and a test compare.

#pragma once

#include <string>

#include "services/shard/state/shard_core.h"

namespace dslide::golden {

// Limits, counts, rows with their optimizer state and biases, what hash tables are made of and
// which rows they give for fixed fingerprints, clients with the answers kept for them, and open
// steps. Numbers are written so that equal text means equal bits.
std::string TextOf(const shard::ShardCore& core);

}  // namespace dslide::golden

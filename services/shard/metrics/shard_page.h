// The page for people of a shard: figures that its metrics hold, in words.

#pragma once

#include "core/net/http/status_page.h"
#include "core/net/metrics/metrics_text.h"

namespace dslide::shard {

// Adds what `figures`, a page of a shard's metrics, says: work, bytes moved and saved, memory,
// tables, stages, the command log.
void AddShardFigures(const MetricsText& figures, StatusPage& page);

}  // namespace dslide::shard

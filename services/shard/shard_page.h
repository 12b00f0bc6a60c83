// The page for people of a shard: figures that its metrics hold, in words.

#pragma once

#include "core/metrics/metrics_text.h"
#include "core/metrics/status_page.h"

namespace dslide::shard {

// Adds what `figures`, a page of a shard's metrics, says: work, bytes moved and saved, memory,
// tables, stages, the command log.
void AddShardFigures(const MetricsText& figures, StatusPage& page);

}  // namespace dslide::shard

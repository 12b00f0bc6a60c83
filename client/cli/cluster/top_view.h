// What `dslide top` shows: rates between two looks at a cluster.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics_text.h"
#include "core/protocol/cluster_status.h"

namespace dslide::cli {

// One process's admin page, or why there is none.
struct AdminPage {
  std::string address;
  absl::StatusOr<MetricsText> figures;
};

// One look.
struct TopSample {
  absl::Duration when;  // by the steady clock
  absl::StatusOr<ClusterStatus> status;
  std::vector<AdminPage> pages;  // each address once
};

// One line of the view. Negative: not known.
struct TopRow {
  std::string process;  // "shard 0", "trainer", "coordinator", or what is wrong with the page
  std::string address;  // of the admin page; of gRPC for shards known from the coordinator only
  double samples_per_second = -1;
  double received_bytes_per_second = -1;
  double sent_bytes_per_second = -1;
  double commands_per_second = -1;
  double queue_commands = -1;
  double queue_p99_seconds = -1;
  double memory_bytes = -1;  // of tables on shards, resident elsewhere
  double cpu_share = -1;     // 1: one processor
};

// The rows of this look's processes: those with a page first, then shards without one that answers,
// as the coordinator knows them. Counters that went back (a restart) count from 0.
std::vector<TopRow> MakeTopRows(const TopSample& before, const TopSample& now);

std::string TopText(const TopSample& before, const TopSample& now, const std::string& cluster);
// One line of JSON: {"seconds", "shards_alive", "expected_shards", "jobs": [...], "processes":
// [...]}; what is not known is null.
std::string TopJson(const TopSample& before, const TopSample& now);

}  // namespace dslide::cli

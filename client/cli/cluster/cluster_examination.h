// What `dslide doctor` makes of what a cluster's processes say about themselves. These functions
// only judge; command_doctor.cc asks.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/shard_client.h"
#include "core/net/metrics/metrics_text.h"
#include "core/protocol/cluster_status.h"
#include "core/system/finding.h"

namespace dslide::cli {

// Of this program, to compare with: version and revision.
struct Build {
  std::string version;
  std::string revision;
};

// A call that failed: nobody answered, or the certificate's role may not ask.
void JudgeFailure(const std::string& where, const absl::Status& error, Findings& findings);

// Shards that are missing or lost, jobs without trainers, the restore_count, the coordinator's
// build.
void JudgeStatus(const std::string& where, const ClusterStatus& status, const Build& mine,
                 Findings& findings);

// What a shard says of itself against what the coordinator says of it.
void JudgeShard(const ShardInfo& entry, const absl::StatusOr<ShardServerInfo>& info,
                const ClusterStatus& status, Findings& findings);

// Whether there is something to go back to, how old it is, and whether it is whole.
void JudgeCheckpoints(const std::string& where, const ClusterStatus& status,
                      const absl::StatusOr<std::vector<ClusterCheckpoint>>& committed,
                      Findings& findings);

// The numbers of one admin page: a failed log, a full disk, lost updates, certificates, plaintext.
void JudgePage(const std::string& where, const MetricsText& page, absl::Time now,
               Findings& findings);

// A certificate that ends at `expires`.
void JudgeExpiry(const std::string& where, absl::Time expires, absl::Time now, Findings& findings);

}  // namespace dslide::cli

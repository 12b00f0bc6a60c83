// One piece of work that somebody has asked for and does not wait for in one call.

#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/protocol/cluster_status.h"
#include "services/coordinator/checkpoints/manifest.h"
#include "services/coordinator/membership/shard_admin.h"

namespace dslide::coordinator {

enum class OperationKind {
  kCreateCheckpoint,
  kRestoreCheckpoint,
  kCreateClusterCheckpoint,
  kVerifyClusterCheckpoint,
  kRestoreClusterCheckpoint,
  kAdoptClusterCheckpoint,
};
inline constexpr OperationKind kOperationKinds[] = {
    OperationKind::kCreateCheckpoint,         OperationKind::kRestoreCheckpoint,
    OperationKind::kCreateClusterCheckpoint,  OperationKind::kVerifyClusterCheckpoint,
    OperationKind::kRestoreClusterCheckpoint, OperationKind::kAdoptClusterCheckpoint,
};
// "create-checkpoint": the name of its call in small letters.
const char* OperationKindName(OperationKind kind);

// What came of each kind. The manifest of a checkpoint: that of the one that was meant.
struct RestoredRows {
  int64_t rows = 0;
};
struct TakenCheckpoint {
  Manifest manifest;
};
struct VerifiedCheckpoint {
  Manifest manifest;
};
struct RestoredCheckpoint {
  Manifest manifest;
  std::vector<uint64_t> skipped = {};  // newer ones that are known to be damaged
};
struct AdoptedCheckpoint {
  Manifest manifest;
};
using OperationResult = std::variant<std::monostate, CheckpointSize, RestoredRows, TakenCheckpoint,
                                     VerifiedCheckpoint, RestoredCheckpoint, AdoptedCheckpoint>;

// One as it is at a moment.
struct OperationView {
  uint64_t number = 0;  // by age, from 1
  OperationKind kind = OperationKind::kCreateCheckpoint;
  OperationStatus status = {};  // as clients see it
  absl::Status error = {};      // once it is done: OK, or why it failed
  OperationResult result = {};  // once it is done well
};

}  // namespace dslide::coordinator

// What is wrong with a data directory that lies on this machine: a door of its own to the services,
// for `dslide doctor`.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "core/system/finding.h"

namespace dslide {

// What is to be done about files that a start could not use. What could not be read may be whole:
// nobody is told to give it up. Readers of files refuse as FailedPrecondition what another version
// has written (core/system/format_version.h).
inline std::string RemedyFor(const absl::Status& status, std::string if_damaged) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return "nothing is damaged: use that version";
    case absl::StatusCode::kPermissionDenied:
      return "nothing is known to be damaged: examine it as the owner, or let this user read it";
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return "nothing is known to be damaged: look after the disk, then examine it again";
    default:
      return if_damaged;
  }
}

enum class DirectoryKind { kUnknown, kShard, kCoordinator };
DirectoryKind KindOfDirectory(const std::string& path);

// Read every file that a start or a restore would need, and change nothing. While a process uses
// the directory, only what it does not change is read.

// Checkpoints of models, the command log with its images, parts of cluster checkpoints, what a stop
// or a crash has left, and the room on the disk.
Findings ExamineShardDirectory(const std::string& path);
// The catalogue, manifests, the restore_count, marks of damage, leftovers and the room on the disk.
Findings ExamineCoordinatorDirectory(const std::string& path);

}  // namespace dslide

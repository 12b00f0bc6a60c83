// What is wrong with a data directory that lies on this machine: a door of its own to the services,
// for `dslide doctor`.

#pragma once

#include <string>

#include "core/system/finding.h"

namespace dslide {

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

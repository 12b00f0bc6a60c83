// Whether a process works with a data directory now. Internal to this folder.

#pragma once

#include <string>

namespace dslide {

// A shard that runs holds the file LOCK of its directory.
bool ShardUses(const std::string& data_dir);
// A coordinator that runs holds the lock of its catalogue. Not noticed from the same process.
bool CoordinatorUses(const std::string& data_dir);

}  // namespace dslide

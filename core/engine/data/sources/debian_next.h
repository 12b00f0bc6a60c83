// The task of debian-packages, tested on what nobody could see while it was trained: packages that
// are new in a later release.

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/engine/data/sources/debian_set.h"

namespace dslide {

// `lists_dir` holds the index of the earlier release.
struct DebianNextOptions : DebianSetOptions {
  // That of the later one.
  std::string next_lists_dir;
  // Labels on more than this part of the earlier release's packages are left out.
  double max_label_fraction = 0.02;
};

// Builds the set, with groups.txt: training points are the packages of the earlier release, test
// points those of the later one whose names the earlier does not have. Words and labels that no
// training point has are left out. The same indices give the same bytes.
//
// Errors: as BuildDebianPackages(); InvalidArgument also when both folders are the same.
absl::StatusOr<DebianSetReport> BuildDebianNext(const DebianNextOptions& options);

// Errors: InvalidArgument naming the option, its value and its range.
absl::Status CheckDebianNextOptions(const DebianNextOptions& options);

}  // namespace dslide

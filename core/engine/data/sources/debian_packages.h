// A real wide task that every Debian machine already holds: from the words of a package's
// description to the packages it depends on or recommends.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/engine/data/sources/debian_set.h"

namespace dslide {

struct DebianPackagesOptions : DebianSetOptions {
  // Labels on more than this part of the packages are left out (libc6 tells nothing).
  double max_label_fraction = 0.02;
  // One package in this many is for testing, chosen by a hash of its name.
  int64_t test_one_in = 10;
};

// Builds the set. The same index gives the same bytes.
//
// Errors: NotFound when the folder has no index, with the remedy (`apt-get update`);
// InvalidArgument for options out of range or an index file that is not one; system errors naming
// the path.
absl::StatusOr<DebianSetReport> BuildDebianPackages(const DebianPackagesOptions& options);

// Whether `lists_dir` holds at least one index file.
bool HasDebianPackageIndex(const std::string& lists_dir);

}  // namespace dslide

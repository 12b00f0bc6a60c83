// A real set with more labels than training points: from the words of a package's description to
// the names of the files that it ships, as apt's Contents index lists them.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/engine/data/sources/debian_set.h"

namespace dslide {

// `lists_dir` also holds the Contents index (ListContentsIndex()), which apt fetches when asked.
struct DebianFilesOptions : DebianSetOptions {
  // Every word: as neighbours, 20,000 find a twentieth less.
  DebianFilesOptions() { max_features = 40000; }

  // Names are labels when so many packages ship them: one that a single package ships cannot be
  // learnt, one that all have (copyright) says nothing.
  int64_t min_packages = 2;
  int64_t max_packages = 200;
  // Of the names of a package, those that the most packages ship, at most so many: 97 % of the
  // packages have fewer, a few have ten thousand.
  int64_t max_names = 250;
  // The packages of one source package in this many are for testing, chosen by a hash of its name.
  int64_t test_one_in = 10;
};

// Builds the set, with groups.txt. Names that hold the package's own name or its source's would
// give the answer away: they are no labels of it, and it does not count as one that ships them. The
// same index gives the same bytes.
//
// Errors: NotFound when a part of the index is missing, with the remedy; InvalidArgument for
// options out of range or an index file that is not one; system errors naming the path.
absl::StatusOr<DebianSetReport> BuildDebianFiles(const DebianFilesOptions& options);

// Errors: InvalidArgument naming the option, its value and its range.
absl::Status CheckDebianFilesOptions(const DebianFilesOptions& options);

}  // namespace dslide

// A real wide task that every Debian machine already holds: from the words of a package's
// description to the packages it depends on or recommends.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/parallel.h"

namespace dslide {

struct DebianPackagesOptions {
  // Holds the index: files named *_Packages, plain or .lz4, .gz, .xz, .zst.
  std::string lists_dir = "/var/lib/apt/lists";
  // Receives train.txt, test.txt, features.txt, labels.txt and README.txt; made when absent.
  std::string output_dir;
  int64_t max_features = 20000;
  // Labels on more than this part of the packages are left out (libc6 tells nothing).
  double max_label_fraction = 0.02;
  // One package in this many is for testing, chosen by a hash of its name.
  int64_t test_one_in = 10;
  Parallelism parallelism;
};

struct DebianPackagesReport {
  int64_t index_files = 0;
  int64_t packages = 0;  // distinct names
  int64_t train_points = 0;
  int64_t test_points = 0;
  int64_t features = 0;
  int64_t labels = 0;
  int64_t labels_left_out = 0;  // too frequent
  double features_per_point = 0;
  double labels_per_point = 0;
};

// Builds the set. The same index gives the same bytes.
//
// Errors: NotFound when the folder has no index, with the remedy (`apt-get update`);
// InvalidArgument for options out of range or an index file that is not one; system errors naming
// the path.
absl::StatusOr<DebianPackagesReport> BuildDebianPackages(const DebianPackagesOptions& options);

// Whether `lists_dir` holds at least one index file.
bool HasDebianPackageIndex(const std::string& lists_dir);

// The words of a text as the builder sees them: lower case, maximal runs of [a-z0-9+.-] that are
// also split at '-' and stripped of '.', '-' at either end; in text order, repeats kept. Bytes
// beyond ASCII separate words. A token that begins with "name:" is a package's name: its words keep
// that mark ("name:python3-tk" gives "name:python3", "name:tk"). This is how a new description
// becomes features.
std::vector<std::string> DescriptionWords(absl::string_view text);

}  // namespace dslide

// What the sets that are made of a Debian package index share: points that are packages, known by
// the words of their descriptions, and the files that they are written to.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/parallel.h"
#include "core/engine/data/sources/package_index.h"

namespace dslide {

struct DebianSetOptions {
  // Holds the index: files named *_Packages, plain or .lz4, .gz, .xz, .zst.
  std::string lists_dir = "/var/lib/apt/lists";
  // Receives train.txt, test.txt, features.txt, labels.txt, tokenizer.json and README.txt; made
  // when absent.
  std::string output_dir;
  int64_t max_features = 20000;
  Parallelism parallelism;
};

struct DebianSetReport {
  int64_t index_files = 0;
  int64_t packages = 0;  // distinct names
  int64_t train_points = 0;
  int64_t test_points = 0;
  int64_t features = 0;
  int64_t labels = 0;
  int64_t labels_left_out = 0;  // too frequent
  double features_per_point = 0;
  double labels_per_point = 0;
  bool groups = false;  // groups.txt was written
};

// A package as a data set sees it.
struct DescribedPoint {
  std::vector<std::string> words;  // of description and name, repeats kept
  std::vector<std::string> labels;
  std::string source;  // its source package
  bool is_test = false;
};

// A point without labels.
DescribedPoint DescribePackage(const PackageParagraph& package);

// Whether what bears this name is for testing: by the name alone, so that it stays so in a later
// index.
bool IsTestName(absl::string_view name, int64_t one_in);

// How points become a set.
struct DebianSetPlan {
  int64_t max_label_points = 0;     // labels on more points are left out
  bool labels_of_training = false;  // labels that no training point has are left out
  bool groups = false;              // also write groups.txt: the source of each training point
  std::string about;                // first part of README.txt, before the figures
  std::vector<std::string> made_from = {};  // its end: the files read
};

// Chooses labels, then the words on most training points; drops points without one or the other,
// and writes what is left in the order of `points`. Ids go by falling frequency, then
// alphabetically. report->index_files and report->packages are the caller's, the rest is set.
// Errors: InvalidArgument when no training or no test point is left; system errors naming the path.
absl::Status WriteDebianSet(const DebianSetOptions& options, const DebianSetPlan& plan,
                            std::vector<DescribedPoint> points, DebianSetReport* report);

// Errors: InvalidArgument naming the option, its value and its range.
absl::Status CheckDebianSetOptions(const DebianSetOptions& options);
absl::Status CheckTestOneIn(int64_t test_one_in);
absl::Status CheckLabelFraction(double max_label_fraction);

}  // namespace dslide

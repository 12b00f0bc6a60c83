#include "core/engine/data/sources/debian_files.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sources/contents_index.h"

namespace dslide {
namespace {

// Package and source names are lower case.
bool TellsThePackage(absl::string_view lower_name, const PackageParagraph& package) {
  return absl::StrContains(lower_name, package.name) ||
         absl::StrContains(lower_name, package.source);
}

// For each package the indices of the names that are its labels. `names` are sorted by name.
std::vector<std::vector<uint32_t>> ChooseNames(const std::vector<ShippedName>& names,
                                               const std::vector<PackageParagraph>& packages,
                                               const DebianFilesOptions& options) {
  std::vector<std::vector<uint32_t>> chosen(packages.size());
  std::vector<size_t> counts(names.size());
  for (size_t n = 0; n < names.size(); ++n) {
    const std::string lower = absl::AsciiStrToLower(names[n].name);
    std::vector<uint32_t> shippers = names[n].packages;
    std::erase_if(shippers, [&](uint32_t p) { return TellsThePackage(lower, packages[p]); });
    if (static_cast<int64_t>(shippers.size()) < options.min_packages) continue;
    counts[n] = shippers.size();
    for (const uint32_t package : shippers) chosen[package].push_back(static_cast<uint32_t>(n));
  }
  for (std::vector<uint32_t>& mine : chosen) {
    if (static_cast<int64_t>(mine.size()) <= options.max_names) continue;
    std::stable_sort(mine.begin(), mine.end(),
                     [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
    mine.resize(static_cast<size_t>(options.max_names));
  }
  return chosen;
}

std::string AboutFiles(const DebianFilesOptions& options) {
  return absl::StrFormat(
      "debian-files: words of a package's description -> names of the files that it ships\n\n"
      "A point is a package of the apt index. Its features are the words of its short description\n"
      "and, marked with name:, of its name (value = how often the word occurs); its labels are "
      "the\n"
      "names of its files, without their folders, that %d to %d packages ship. Names that hold "
      "the\n"
      "name of the package or of its source package are not counted; of more than %d those remain\n"
      "that the most packages ship, first in the alphabet where equal. Left out are packages\n"
      "without a label or without a known word. The packages of one source package in %d, chosen\n"
      "by a hash of its name, are for testing; the %d most frequent words of the others are the\n"
      "features. Ids are by falling frequency, then alphabetical.\n\n"
      "train.txt, test.txt: sparse text (points features labels; label,... feature:value ...)\n"
      "features.txt, labels.txt: one name a line, id 0 first\n",
      options.min_packages, options.max_packages, options.max_names, options.test_one_in,
      options.max_features);
}

}  // namespace

absl::Status CheckDebianFilesOptions(const DebianFilesOptions& options) {
  RETURN_IF_ERROR(CheckDebianSetOptions(options));
  RETURN_IF_ERROR(CheckTestOneIn(options.test_one_in));
  if (options.min_packages < 1 || options.min_packages > options.max_packages) {
    return absl::InvalidArgumentError(absl::StrCat("min_packages ", options.min_packages,
                                                   " is outside [1, max_packages ",
                                                   options.max_packages, "]"));
  }
  if (options.max_names < 1) {
    return absl::InvalidArgumentError(absl::StrCat("max_names ", options.max_names, " is below 1"));
  }
  return absl::OkStatus();
}

absl::StatusOr<DebianSetReport> BuildDebianFiles(const DebianFilesOptions& options) {
  RETURN_IF_ERROR(CheckDebianFilesOptions(options));
  ASSIGN_OR_RETURN(std::vector<std::string> index_files, ListPackageIndex(options.lists_dir));
  ASSIGN_OR_RETURN(const std::vector<std::string> contents, ListContentsIndex(options.lists_dir));
  ASSIGN_OR_RETURN(const std::vector<PackageParagraph> packages,
                   ReadPackageIndex(options.lists_dir, index_files, options.parallelism));
  std::vector<std::string> package_names;
  for (const PackageParagraph& package : packages) package_names.push_back(package.name);
  ASSIGN_OR_RETURN(const std::vector<ShippedName> names,
                   ReadShippedNames(options.lists_dir, contents, package_names,
                                    options.min_packages, options.max_packages));
  const std::vector<std::vector<uint32_t>> chosen = ChooseNames(names, packages, options);
  std::vector<DescribedPoint> points;
  for (size_t p = 0; p < packages.size(); ++p) {
    if (chosen[p].empty()) continue;
    points.push_back(DescribePackage(packages[p]));
    for (const uint32_t name : chosen[p]) points.back().labels.push_back(names[name].name);
    points.back().is_test = IsTestName(packages[p].source, options.test_one_in);
  }
  DebianSetPlan plan;
  plan.max_label_points = options.max_packages;
  plan.groups = true;
  plan.about = AboutFiles(options);
  plan.made_from = index_files;
  plan.made_from.insert(plan.made_from.end(), contents.begin(), contents.end());
  DebianSetReport report;
  report.index_files = static_cast<int64_t>(plan.made_from.size());
  report.packages = static_cast<int64_t>(packages.size());
  RETURN_IF_ERROR(WriteDebianSet(options, plan, std::move(points), &report));
  return report;
}

}  // namespace dslide

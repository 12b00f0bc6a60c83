#include "core/engine/data/sources/debian_next.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

std::string AboutNext(const DebianNextOptions& options) {
  return absl::StrFormat(
      "debian-next: words of a package's description -> the packages it needs, in a later "
      "release\n\n"
      "A point is a package. Training points are the packages of one apt index, test points those\n"
      "of a later one whose names the first does not have. Features are the words of the short\n"
      "description and, marked with name:, of the name (value = how often the word occurs); "
      "labels\n"
      "are the packages that it Depends on or Recommends: the first of alternatives, without\n"
      "version and architecture. Left out: labels on more than %g %% of the first index's "
      "packages\n"
      "and labels that no training point has, then points without a label or without a known "
      "word.\n"
      "The %d most frequent words of the training points are the features. Ids are by falling\n"
      "frequency, then alphabetical.\n\n"
      "train.txt, test.txt: sparse text (points features labels; label,... feature:value ...)\n"
      "features.txt, labels.txt: one name a line, id 0 first\n",
      options.max_label_fraction * 100.0, options.max_features);
}

void AppendPoints(std::vector<PackageParagraph> packages, bool is_test,
                  std::vector<DescribedPoint>* points) {
  for (PackageParagraph& package : packages) {
    points->push_back(DescribePackage(package));
    points->back().labels = std::move(package.dependencies);
    points->back().is_test = is_test;
  }
}

}  // namespace

absl::Status CheckDebianNextOptions(const DebianNextOptions& options) {
  RETURN_IF_ERROR(CheckDebianSetOptions(options));
  RETURN_IF_ERROR(CheckLabelFraction(options.max_label_fraction));
  if (options.next_lists_dir == options.lists_dir) {
    return absl::InvalidArgumentError(absl::StrCat("the lists of both releases are in ",
                                                   options.lists_dir, ": name two folders"));
  }
  return absl::OkStatus();
}

absl::StatusOr<DebianSetReport> BuildDebianNext(const DebianNextOptions& options) {
  RETURN_IF_ERROR(CheckDebianNextOptions(options));
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ListPackageIndex(options.lists_dir));
  ASSIGN_OR_RETURN(const std::vector<std::string> next_files,
                   ListPackageIndex(options.next_lists_dir));
  ASSIGN_OR_RETURN(std::vector<PackageParagraph> packages,
                   ReadPackageIndex(options.lists_dir, files, options.parallelism));
  ASSIGN_OR_RETURN(std::vector<PackageParagraph> next,
                   ReadPackageIndex(options.next_lists_dir, next_files, options.parallelism));
  absl::flat_hash_set<std::string> known;
  for (const PackageParagraph& package : packages) known.insert(package.name);
  std::erase_if(next,
                [&](const PackageParagraph& package) { return known.contains(package.name); });

  DebianSetPlan plan;
  plan.max_label_points =
      static_cast<int64_t>(options.max_label_fraction * static_cast<double>(packages.size()));
  plan.labels_of_training = true;
  plan.groups = true;
  plan.about = AboutNext(options);
  plan.made_from = files;
  plan.made_from.insert(plan.made_from.end(), next_files.begin(), next_files.end());
  DebianSetReport report;
  report.index_files = static_cast<int64_t>(plan.made_from.size());
  report.packages = static_cast<int64_t>(packages.size() + next.size());
  std::vector<DescribedPoint> points;
  AppendPoints(std::move(packages), /*is_test=*/false, &points);
  AppendPoints(std::move(next), /*is_test=*/true, &points);
  RETURN_IF_ERROR(WriteDebianSet(options, plan, std::move(points), &report));
  return report;
}

}  // namespace dslide

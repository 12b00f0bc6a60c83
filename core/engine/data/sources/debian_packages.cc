#include "core/engine/data/sources/debian_packages.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

std::string AboutPackages(const DebianPackagesOptions& options) {
  return absl::StrFormat(
      "debian-packages: words of a package's description -> the packages it needs\n\n"
      "A point is a package of the apt index. Its features are the words of its short description\n"
      "and, marked with name:, of its name (value = how often the word occurs); its labels are "
      "the\n"
      "packages that it\n"
      "Depends on or Recommends: the first of alternatives, without version and architecture.\n"
      "Names that no package of the index bears (virtual ones) are labels too. Left out: labels "
      "on\n"
      "more than %g %% of the packages, then packages without a label or without a known word.\n"
      "One package in %d, chosen by a hash of its name, is for testing; the %d most frequent "
      "words\n"
      "of the others are the features. Ids are by falling frequency, then alphabetical.\n\n"
      "train.txt, test.txt: sparse text (points features labels; label,... feature:value ...)\n"
      "features.txt, labels.txt: one name a line, id 0 first\n",
      options.max_label_fraction * 100.0, options.test_one_in, options.max_features);
}

}  // namespace

absl::StatusOr<DebianSetReport> BuildDebianPackages(const DebianPackagesOptions& options) {
  RETURN_IF_ERROR(CheckDebianSetOptions(options));
  RETURN_IF_ERROR(CheckLabelFraction(options.max_label_fraction));
  RETURN_IF_ERROR(CheckTestOneIn(options.test_one_in));
  ASSIGN_OR_RETURN(const std::vector<std::string> index_files, ListPackageIndex(options.lists_dir));
  ASSIGN_OR_RETURN(std::vector<PackageParagraph> packages,
                   ReadPackageIndex(options.lists_dir, index_files, options.parallelism));
  std::vector<DescribedPoint> points;
  for (PackageParagraph& package : packages) {
    points.push_back(DescribePackage(package));
    points.back().labels = std::move(package.dependencies);
    points.back().is_test = IsTestName(package.name, options.test_one_in);
  }
  DebianSetPlan plan;
  plan.max_label_points =
      static_cast<int64_t>(options.max_label_fraction * static_cast<double>(packages.size()));
  plan.about = AboutPackages(options);
  plan.made_from = index_files;
  DebianSetReport report;
  report.index_files = static_cast<int64_t>(index_files.size());
  report.packages = static_cast<int64_t>(packages.size());
  RETURN_IF_ERROR(WriteDebianSet(options, plan, std::move(points), &report));
  return report;
}

bool HasDebianPackageIndex(const std::string& lists_dir) {
  return ListPackageIndex(lists_dir).ok();
}

}  // namespace dslide

#include "core/engine/data/sources/debian_packages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/engine/data/sources/package_index.h"
#include "core/engine/data/sparse_dataset.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PackageIndexTest, TakesTheFirstOfAlternativesWithoutVersions) {
  EXPECT_THAT(DependencyNames("b (>= 1.0) | c, a:any, d [amd64] , b, python3:any (<< 4), e|f"),
              ElementsAre("a", "b", "d", "e", "python3"));
  EXPECT_THAT(DependencyNames(" , ,"), IsEmpty());
}

TEST(PackageIndexTest, ReadsParagraphsWithContinuationLines) {
  std::vector<PackageParagraph> packages;
  ASSERT_TRUE(ParsePackageIndex(
                  "p",
                  "Package: one\nSource: origin (1.0)\nVersion: 1\nDepends: a,\n b (>= 2),\n\tc\n"
                  "Description: First thing\n more words that are not taken\n"
                  "Recommends: z\nTag: x::y,\n q::r\n\n\nPackage: two\r\n\r\n",
                  &packages)
                  .ok());
  ASSERT_EQ(packages.size(), 2u);
  EXPECT_EQ(packages[0].name, "one");
  EXPECT_EQ(packages[0].source, "origin");
  EXPECT_EQ(packages[0].description, "First thing");
  EXPECT_THAT(packages[0].dependencies, ElementsAre("a", "b", "c", "z"));
  EXPECT_EQ(packages[1].name, "two");
  EXPECT_EQ(packages[1].source, "two");
  EXPECT_THAT(packages[1].dependencies, IsEmpty());
}

TEST(PackageIndexTest, NamesTheMalformedLine) {
  std::vector<PackageParagraph> packages;
  EXPECT_EQ(ParsePackageIndex("p", "Package: a\nnonsense\n", &packages).message(),
            "p:2:1: found \"nonsense\", expected Field: value (is this an apt package index?)");
  EXPECT_EQ(ParsePackageIndex("p", "Version: 1\n\nPackage: b\n", &packages).message(),
            "p:2:1: found the end of a paragraph, expected a Package field in it");
}

// 200 packages: p<i> depends on two of ten libraries and on libc.
std::string SmallIndex() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    absl::StrAppend(&text, "Package: p", i, "-tool\nDepends: libc6 (>= 2), lib", i % 10, " | other",
                    "\nRecommends: lib", (i * 7) % 10, ":any\nDescription: Tool number ", i % 10,
                    " for tests\n\n");
  }
  absl::StrAppend(&text, "Package: alone\nDescription: needs nothing\n\n");
  return text;
}

DebianPackagesOptions SmallOptions(const TempDir& lists, const TempDir& out) {
  DebianPackagesOptions options;
  options.lists_dir = lists.File("");
  options.output_dir = out.File("set");
  options.max_label_fraction = 0.5;
  return options;
}

TEST(DebianPackagesTest, BuildsAReadableSet) {
  TempDir lists;
  TempDir out;
  WriteFile(lists.File("a_binary-amd64_Packages"), SmallIndex());
  WriteCompressed(lists.File("b_binary-amd64_Packages.lz4"), "lz4",
                  "Package: p3-tool\nDepends: hidden\nDescription: a repeat of a name\n");
  WriteFile(lists.File("a_InRelease"), "not an index");
  const DebianPackagesOptions options = SmallOptions(lists, out);
  const absl::StatusOr<DebianSetReport> report = BuildDebianPackages(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index_files, 2);
  EXPECT_EQ(report->packages, 201);
  EXPECT_EQ(report->train_points + report->test_points, 200);
  EXPECT_GT(report->test_points, 5);
  EXPECT_LT(report->test_points, 40);
  EXPECT_EQ(report->labels, 10);
  EXPECT_EQ(report->labels_left_out, 1);  // libc6

  SparseDatasetOptions read;
  const auto train = SparseDataset::Open(out.File("set/train.txt"), read);
  const auto test = SparseDataset::Open(out.File("set/test.txt"), read);
  ASSERT_TRUE(train.ok()) << train.status();
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_TRUE(CheckSameShape(**train, **test).ok());
  EXPECT_EQ((*train)->num_points(), report->train_points);
  EXPECT_EQ((*train)->num_features(), report->features);
  std::set<std::string> labels;
  for (int64_t l = 0; l < (*train)->num_labels(); ++l) labels.emplace((*train)->LabelName(l));
  EXPECT_THAT(labels, ElementsAre("lib0", "lib1", "lib2", "lib3", "lib4", "lib5", "lib6", "lib7",
                                  "lib8", "lib9"));
  // Every point holds "tool" in its description and, as a word of its own, in its name.
  SparseBatch batch;
  ASSERT_TRUE((*train)->ReadSamples({0}, &batch).ok());
  EXPECT_EQ((*train)->FeatureName(batch.features[0].value()), "for");
  EXPECT_EQ((*train)->FeatureName(1), "name:tool");
  EXPECT_EQ((*train)->FeatureName(4), "tool");
  EXPECT_EQ(batch.values[1], 1.0f);
  EXPECT_EQ(batch.values[4], 1.0f);
  EXPECT_THAT(ReadFile(out.File("set/README.txt")), HasSubstr("packages in the index   201"));
}

TEST(DebianPackagesTest, TheSameIndexGivesTheSameBytes) {
  TempDir lists;
  TempDir out;
  WriteFile(lists.File("a_Packages"), SmallIndex());
  DebianPackagesOptions options = SmallOptions(lists, out);
  ASSERT_TRUE(BuildDebianPackages(options).ok());
  options.output_dir = out.File("again");
  options.parallelism.threads = 3;
  ASSERT_TRUE(BuildDebianPackages(options).ok());
  for (const char* name : {"train.txt", "test.txt", "features.txt", "labels.txt", "README.txt"}) {
    EXPECT_EQ(ReadFile(out.File(absl::StrCat("set/", name))),
              ReadFile(out.File(absl::StrCat("again/", name))))
        << name;
  }
}

TEST(DebianPackagesTest, KeepsTheMostFrequentWordsOnly) {
  TempDir lists;
  TempDir out;
  WriteFile(lists.File("a_Packages"), SmallIndex());
  DebianPackagesOptions options = SmallOptions(lists, out);
  options.max_features = 4;
  const absl::StatusOr<DebianSetReport> report = BuildDebianPackages(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->features, 4);
  EXPECT_EQ(ReadFile(out.File("set/features.txt")), "for\nname:tool\nnumber\ntests\n");
}

TEST(DebianPackagesTest, AMissingIndexNamesTheRemedy) {
  TempDir lists;
  TempDir out;
  for (const std::string& dir : {lists.File(""), lists.File("nowhere")}) {
    DebianPackagesOptions options = SmallOptions(lists, out);
    options.lists_dir = dir;
    const absl::Status status = BuildDebianPackages(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr("apt-get update"));
    EXPECT_FALSE(HasDebianPackageIndex(dir));
  }
  WriteFile(lists.File("x_Packages"), SmallIndex());
  EXPECT_TRUE(HasDebianPackageIndex(lists.File("")));
}

TEST(DebianPackagesTest, RefusesOptionsOutOfRange) {
  TempDir lists;
  TempDir out;
  WriteFile(lists.File("x_Packages"), SmallIndex());
  const auto message = [&](auto change) {
    DebianPackagesOptions options = SmallOptions(lists, out);
    change(&options);
    return std::string(BuildDebianPackages(options).status().message());
  };
  EXPECT_EQ(message([](auto* o) { o->max_features = 0; }), "max_features 0 is below 1");
  EXPECT_EQ(message([](auto* o) { o->max_label_fraction = 2; }),
            "max_label_fraction 2 is outside (0, 1]");
  EXPECT_EQ(message([](auto* o) { o->test_one_in = 1; }), "test_one_in 1 is below 2");
  EXPECT_EQ(message([](auto* o) { o->output_dir = ""; }),
            "no output directory for the Debian package set");
  EXPECT_THAT(message([](auto* o) { o->max_label_fraction = 0.001; }),
              HasSubstr("too few packages"));
}

// The machine's own index, when it is a Debian one: the figures that the project quotes.
TEST(DebianPackagesTest, TheRealIndexGivesAWideTask) {
  const std::string lists = "/var/lib/apt/lists";
  if (!HasDebianPackageIndex(lists)) GTEST_SKIP() << "skipped: no apt package index in " << lists;
  TempDir out;
  DebianPackagesOptions options;
  options.output_dir = out.File("set");
  options.parallelism.threads = 2;
  const absl::StatusOr<DebianSetReport> report = BuildDebianPackages(options);
  ASSERT_TRUE(report.ok()) << report.status();
  if (report->packages < 50000) GTEST_SKIP() << "skipped: a small index, not Debian's";
  EXPECT_GT(report->train_points, 40000);
  EXPECT_EQ(report->features, 20000);
  EXPECT_GT(report->labels, 35000);
  EXPECT_GT(report->labels_per_point, 3.5);
  SparseDatasetOptions read;
  read.parallelism.threads = 2;
  EXPECT_TRUE(SparseDataset::Open(out.File("set/train.txt"), read).ok());
  EXPECT_TRUE(SparseDataset::Open(out.File("set/test.txt"), read).ok());
}

}  // namespace
}  // namespace dslide

#include "core/engine/data/sources/debian_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/engine/data/sparse_dataset.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using ::testing::Not;

// 120 packages of 60 sources: tool<i> and libtool<i> are of source src<i>. Both ship what their
// group of ten sources ships, a name with their source in it, and one that all ship.
void WriteIndex(const TempDir& lists) {
  std::string packages;
  std::string contents;
  for (int i = 0; i < 60; ++i) {
    for (const char* prefix : {"tool", "libtool"}) {
      const std::string name = absl::StrCat(prefix, i);
      absl::StrAppend(&packages, "Package: ", name, "\nSource: src", i, i % 2 == 0 ? " (1.0)" : "",
                      "\nDescription: Thing of kind ", i % 6, "\nDepends: libc6\n\n");
      absl::StrAppend(&contents, "usr/share/", name, "/group-", i % 6, ".conf   misc/", name, "\n");
      absl::StrAppend(&contents, "usr/share/", name, "/COPYING   misc/", name, "\n");
      absl::StrAppend(&contents, "usr/share/", name, "/My-SRC", i, ".txt   misc/", name, "\n");
      for (int n = 0; n < 4; ++n) {
        absl::StrAppend(&contents, "usr/lib/", name, "/pair-", i, "-", n, "  misc/", name, "\n");
      }
    }
  }
  WriteFile(lists.File("a_binary-amd64_Packages"), packages);
  WriteCompressed(lists.File("a_Contents-amd64.lz4"), "lz4", contents);
}

DebianFilesOptions FilesOptions(const TempDir& lists, const TempDir& out) {
  DebianFilesOptions options;
  options.lists_dir = lists.File("");
  options.output_dir = out.File("set");
  options.max_packages = 100;
  options.test_one_in = 4;
  return options;
}

std::vector<std::string> Lines(const std::string& path) {
  std::vector<std::string> lines = absl::StrSplit(ReadFile(path), '\n');
  lines.pop_back();
  return lines;
}

TEST(DebianFilesTest, LabelsAreNamesOfSomePackagesThatDoNotTellTheirOwn) {
  TempDir lists;
  TempDir out;
  WriteIndex(lists);
  const auto report = BuildDebianFiles(FilesOptions(lists, out));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index_files, 2);
  EXPECT_EQ(report->packages, 120);
  EXPECT_EQ(report->train_points + report->test_points, 120);
  const std::vector<std::string> labels = Lines(out.File("set/labels.txt"));
  EXPECT_EQ(labels.size(), 6u + 60u * 4u);
  EXPECT_THAT(labels, Contains("group-3.conf"));
  EXPECT_THAT(labels, Contains("pair-59-3"));
  EXPECT_THAT(labels, Not(Contains("COPYING")));      // all 120
  EXPECT_THAT(labels, Not(Contains("My-SRC7.txt")));  // of src7
  EXPECT_DOUBLE_EQ(report->labels_per_point, 5);
  EXPECT_THAT(ReadFile(out.File("set/README.txt")), HasSubstr("a_Contents-amd64.lz4"));
}

TEST(DebianFilesTest, TheMostShippedOfManyNamesRemain) {
  TempDir lists;
  TempDir out;
  WriteIndex(lists);
  DebianFilesOptions options = FilesOptions(lists, out);
  options.max_names = 3;
  ASSERT_TRUE(BuildDebianFiles(options).ok());
  const std::vector<std::string> labels = Lines(out.File("set/labels.txt"));
  EXPECT_EQ(labels.size(), 6u + 60u * 2u);  // those of ten sources go before those of a single one
  EXPECT_THAT(labels, Contains("pair-7-1"));
  EXPECT_THAT(labels, Not(Contains("pair-7-2")));
}

TEST(DebianFilesTest, ASourcePackageIsOnOneSideAndGroupsNameIt) {
  TempDir lists;
  TempDir out;
  WriteIndex(lists);
  const auto report = BuildDebianFiles(FilesOptions(lists, out));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->test_points, 0);
  const std::vector<std::string> groups = Lines(out.File("set/groups.txt"));
  EXPECT_EQ(static_cast<int64_t>(groups.size()), report->train_points);
  std::map<std::string, int> points;
  for (const std::string& group : groups) ++points[group];
  for (const auto& [group, count] : points) EXPECT_EQ(count, 2) << group;
  EXPECT_EQ(static_cast<int64_t>(points.size()) * 2, report->train_points);
  // The labels of a training point tell its source: pair-<i>-<n>.
  const auto train = SparseDataset::Open(out.File("set/train.txt"), {});
  ASSERT_TRUE(train.ok()) << train.status();
  for (int64_t p = 0; p < (*train)->num_points(); ++p) {
    SparseBatch batch;
    ASSERT_TRUE((*train)->ReadSamples({p}, &batch).ok());
    std::vector<std::string> names;
    for (const RowId label : batch.labels) names.emplace_back((*train)->LabelName(label.value()));
    const std::string number = groups[static_cast<size_t>(p)].substr(3);
    EXPECT_THAT(names, Contains(absl::StrCat("pair-", number, "-0")));
  }
}

TEST(DebianFilesTest, TheSameIndexGivesTheSameBytes) {
  TempDir lists;
  TempDir out;
  WriteIndex(lists);
  DebianFilesOptions options = FilesOptions(lists, out);
  ASSERT_TRUE(BuildDebianFiles(options).ok());
  options.output_dir = out.File("again");
  options.parallelism.threads = 3;
  ASSERT_TRUE(BuildDebianFiles(options).ok());
  for (const char* name :
       {"train.txt", "test.txt", "features.txt", "labels.txt", "groups.txt", "README.txt"}) {
    EXPECT_EQ(ReadFile(out.File(absl::StrCat("set/", name))),
              ReadFile(out.File(absl::StrCat("again/", name))))
        << name;
  }
}

TEST(DebianFilesTest, WhatIsMissingOrWrongIsNamed) {
  TempDir lists;
  TempDir out;
  WriteIndex(lists);
  const auto message = [&](auto change) {
    DebianFilesOptions options = FilesOptions(lists, out);
    change(&options);
    return std::string(BuildDebianFiles(options).status().message());
  };
  EXPECT_EQ(message([](auto* o) { o->min_packages = 0; }),
            "min_packages 0 is outside [1, max_packages 100]");
  EXPECT_EQ(message([](auto* o) { o->min_packages = 101; }),
            "min_packages 101 is outside [1, max_packages 100]");
  EXPECT_EQ(message([](auto* o) { o->max_names = 0; }), "max_names 0 is below 1");
  EXPECT_EQ(message([](auto* o) { o->test_one_in = 1; }), "test_one_in 1 is below 2");
  EXPECT_THAT(message([](auto* o) { o->output_dir = ""; }), HasSubstr("no output directory"));
  WriteFile(lists.File("b_Contents-all"), "usr/bin/x misc/tool1\nnonsense\n");
  EXPECT_THAT(message([](auto*) {}), HasSubstr("b_Contents-all:2:1: found \"nonsense\""));
  TempDir packages_only;
  WriteFile(packages_only.File("a_Packages"), "Package: a\nDescription: x\n");
  EXPECT_THAT(message([&](auto* o) { o->lists_dir = packages_only.File(""); }),
              HasSubstr("no apt Contents index"));
}

}  // namespace
}  // namespace dslide

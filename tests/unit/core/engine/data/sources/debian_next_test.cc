#include "core/engine/data/sources/debian_next.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/engine/data/sparse_dataset.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Releases {
  TempDir lists;
  TempDir next;
  TempDir out;

  Releases() {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      absl::StrAppend(&text, "Package: p", i, "\nSource: s", i / 2, "\nDepends: common, lib", i % 5,
                      "\nDescription: Tool number ", i % 5, "\n\n");
    }
    WriteFile(lists.File("old_Packages"), text);
    WriteFile(next.File("new_Packages"),
              "Package: p3\nDepends: lib0\nDescription: was there before\n\n"
              "Package: fresh\nDepends: lib2, lib-new, common\nDescription: Tool unheard\n\n"
              "Package: strange\nDepends: lib1\nDescription: zzz\n\n"
              "Package: hopeless\nDepends: lib-new\nDescription: Tool number 1\n");
  }
  DebianNextOptions Options() const {
    DebianNextOptions options;
    options.lists_dir = lists.File("");
    options.next_lists_dir = next.File("");
    options.output_dir = out.File("set");
    options.max_label_fraction = 0.5;
    return options;
  }
};

TEST(DebianNextTest, TestsOnNewPackagesWithTheVocabularyOfTheOld) {
  Releases releases;
  const auto report = BuildDebianNext(releases.Options());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->index_files, 2);
  EXPECT_EQ(report->packages, 43);
  EXPECT_EQ(report->train_points, 40);
  EXPECT_EQ(report->labels, 5);
  EXPECT_EQ(report->labels_left_out, 1);  // common
  // "strange" has no known word, "hopeless" no known label.
  EXPECT_EQ(report->test_points, 1);
  const auto test = SparseDataset::Open(releases.out.File("set/test.txt"), {});
  ASSERT_TRUE(test.ok()) << test.status();
  SparseBatch batch;
  ASSERT_TRUE((*test)->ReadSamples({0}, &batch).ok());
  ASSERT_EQ(batch.labels.size(), 1u);
  EXPECT_EQ((*test)->LabelName(batch.labels[0].value()), "lib2");
  ASSERT_EQ(batch.features.size(), 1u);
  EXPECT_EQ((*test)->FeatureName(batch.features[0].value()), "tool");
  const std::string groups = ReadFile(releases.out.File("set/groups.txt"));
  EXPECT_THAT(groups, HasSubstr("s0\ns0\ns5\ns5\n"));  // p0 and p1, then p10 and p11
  EXPECT_THAT(ReadFile(releases.out.File("set/features.txt")), Not(HasSubstr("unheard")));
}

TEST(DebianNextTest, TheSameIndicesGiveTheSameBytes) {
  Releases releases;
  DebianNextOptions options = releases.Options();
  ASSERT_TRUE(BuildDebianNext(options).ok());
  options.output_dir = releases.out.File("again");
  options.parallelism.threads = 3;
  ASSERT_TRUE(BuildDebianNext(options).ok());
  for (const char* name :
       {"train.txt", "test.txt", "features.txt", "labels.txt", "groups.txt", "README.txt"}) {
    EXPECT_EQ(ReadFile(releases.out.File(absl::StrCat("set/", name))),
              ReadFile(releases.out.File(absl::StrCat("again/", name))))
        << name;
  }
}

TEST(DebianNextTest, WhatIsMissingOrWrongIsNamed) {
  Releases releases;
  const auto message = [&](auto change) {
    DebianNextOptions options = releases.Options();
    change(&options);
    return std::string(BuildDebianNext(options).status().message());
  };
  EXPECT_THAT(message([](auto* o) { o->next_lists_dir = o->lists_dir; }),
              HasSubstr("name two folders"));
  EXPECT_THAT(message([](auto* o) { o->next_lists_dir += "nowhere"; }),
              HasSubstr("no apt package index"));
  EXPECT_EQ(message([](auto* o) { o->max_label_fraction = 0; }),
            "max_label_fraction 0 is outside (0, 1]");
  WriteFile(releases.next.File("bad_Packages"), "Package: x\nnonsense\n");
  EXPECT_THAT(message([](auto*) {}), HasSubstr("bad_Packages:2:1: found \"nonsense\""));
}

}  // namespace
}  // namespace dslide

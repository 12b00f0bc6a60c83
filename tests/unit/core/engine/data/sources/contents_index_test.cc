#include "core/engine/data/sources/contents_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::pair<std::string, std::string>> ParsedContents(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  const absl::Status status =
      ParseContentsIndex("c", text, [&](absl::string_view name, absl::string_view package) {
        pairs.emplace_back(name, package);
      });
  EXPECT_TRUE(status.ok()) << status;
  return pairs;
}

std::string ContentsError(const std::string& text) {
  return std::string(
      ParseContentsIndex("c", text, [](absl::string_view, absl::string_view) {}).message());
}

TEST(ContentsIndexTest, ReadsLinesAsDocumented) {
  EXPECT_THAT(ParsedContents("bin/ash      shells/ash\n"
                             "usr/share/a b/c  d.txt \t contrib/net/one,main/two,three\r\n"
                             "\n   \n"
                             "top-level x/y"),
              ElementsAre(Pair("ash", "ash"), Pair("c  d.txt", "one"), Pair("c  d.txt", "two"),
                          Pair("c  d.txt", "three"), Pair("top-level", "y")));
  EXPECT_THAT(ParsedContents("usr/share/folder/   x/y\n"), IsEmpty());
  EXPECT_THAT(ParsedContents(""), IsEmpty());
}

TEST(ContentsIndexTest, NamesTheMalformedLine) {
  EXPECT_EQ(ContentsError("a x/y\nnonsense\n"),
            "c:2:1: found \"nonsense\", expected a path, blanks and section/package,...");
  EXPECT_EQ(ContentsError("  x/y\n"),
            "c:1:1: found \"  x/y\", expected a path, blanks and section/package,...");
  EXPECT_EQ(ContentsError("a x/y,,z\n"), "c:1:7: found \",z\", expected section/package,...");
  EXPECT_EQ(ContentsError("a x/\n"), "c:1:3: found \"x/\", expected section/package,...");
}

TEST(ContentsIndexTest, ListsTheIndicesOfPackagesOnly) {
  TempDir lists;
  for (const char* name :
       {"d_main_Contents-all.lz4", "d_main_Contents-amd64", "Contents-arm64.gz",
        "d_main_Contents-udeb-amd64", "d_main_Contents-source.gz", "d_main_Contents-",
        "d_main_binary-amd64_Packages", "d_Contents-all_InRelease"}) {
    WriteFile(lists.File(name), "");
  }
  EXPECT_THAT(*ListContentsIndex(lists.File("")),
              ElementsAre("Contents-arm64.gz", "d_main_Contents-all.lz4", "d_main_Contents-amd64"));
  TempDir empty;
  const absl::Status status = ListContentsIndex(empty.File("")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--fetch"));
}

TEST(ContentsIndexTest, CountsAPackageOnceForEachName) {
  TempDir lists;
  WriteFile(lists.File("Contents-all"),
            "a/one s/p\nb/one s/p\nb/two s/p,s/q\nc/three s/p,s/q,s/r\nc/other s/unknown,s/q\n");
  WriteCompressed(lists.File("Contents-amd64.gz"), "gzip", "z/one s/r\nz/other s/p\n");
  const auto names = ReadShippedNames(lists.File(""), {"Contents-all", "Contents-amd64.gz"},
                                      {"p", "q", "r"}, 2, 2);
  ASSERT_TRUE(names.ok()) << names.status();
  std::map<std::string, std::vector<uint32_t>> found;
  for (const ShippedName& name : *names) found[name.name] = name.packages;
  EXPECT_THAT(found, ElementsAre(Pair("one", ElementsAre(0, 2)), Pair("other", ElementsAre(0, 1)),
                                 Pair("two", ElementsAre(0, 1))));
}

// Against sets of strings.
TEST(ContentsIndexTest, AgreesWithAPlainCount) {
  CounterRng rng(3);
  std::map<std::string, std::set<uint32_t>> expected;
  std::vector<std::string> packages;
  for (int p = 0; p < 30; ++p) packages.push_back(absl::StrCat("package", 100 + p));
  TempDir lists;
  for (const char* file : {"x_Contents-all", "x_Contents-amd64"}) {
    std::string text;
    for (int line = 0; line < 2000; ++line) {
      const std::string name = absl::StrCat("name ", rng.NextBelow(300));
      absl::StrAppend(&text, "usr/", rng.NextBelow(5), "/", name, "   ");
      const uint64_t shippers = 1 + rng.NextBelow(3);
      for (uint64_t i = 0; i < shippers; ++i) {
        const auto package = static_cast<uint32_t>(rng.NextBelow(30));
        absl::StrAppend(&text, i == 0 ? "" : ",", "net/", packages[package]);
        expected[name].insert(package);
      }
      text += '\n';
    }
    WriteFile(lists.File(file), text);
  }
  const auto names =
      ReadShippedNames(lists.File(""), *ListContentsIndex(lists.File("")), packages, 10, 20);
  ASSERT_TRUE(names.ok()) << names.status();
  std::erase_if(expected, [](const auto& entry) {
    return entry.second.size() < 10 || entry.second.size() > 20;
  });
  ASSERT_GT(expected.size(), 50u);
  ASSERT_EQ(names->size(), expected.size());
  for (const ShippedName& name : *names) {
    const std::set<uint32_t> mine(name.packages.begin(), name.packages.end());
    EXPECT_EQ(mine, expected.at(name.name)) << name.name;
    EXPECT_EQ(mine.size(), name.packages.size()) << name.name;
  }
}

}  // namespace
}  // namespace dslide

#include "client/objects/object_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

using testing::HasSubstr;

// A store in memory that answers as the contract says; it may end after some bytes.
class FakeSource final : public ObjectSource {
 public:
  absl::Status Read(const ObjectUrl& url, const ObjectVersion& have, int64_t have_bytes,
                    ObjectSink& sink) override {
    const auto found = objects.find(url.shown);
    if (found == objects.end()) return absl::NotFoundError(url.shown);
    const std::string& content = found->second;
    const ObjectVersion version{.etag = absl::StrCat("\"", content.substr(0, 1), "\""),
                                .size = static_cast<int64_t>(content.size())};
    int64_t offset = have == version ? have_bytes : 0;
    if (offset == version.size && have == version) return absl::OkStatus();
    if (const absl::Status begun = sink.Begin(version, offset); !begun.ok()) return begun;
    while (offset < version.size) {
      if (dies_after.has_value() && (*dies_after)-- == 0) return absl::UnavailableError("cut");
      const absl::Status appended = sink.Append(content.substr(static_cast<size_t>(offset), 1));
      if (!appended.ok()) return appended;
      ++offset;
      ++bytes;
    }
    return absl::OkStatus();
  }

  std::map<std::string, std::string> objects;
  std::optional<int> dies_after;
  int64_t bytes = 0;  // sent
};

class ObjectCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/dslide-objects-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<ObjectCache::File> Fetch(const std::string& text, int64_t max_bytes = 100) {
    const auto url = ParseObjectUrl(text);
    if (!url.ok()) return url.status();
    const auto cache =
        ObjectCache::Open({.directory = folder_ + "/cache", .max_bytes = max_bytes}, source_);
    if (!cache.ok()) return cache.status();
    return (*cache)->Fetch(*url);
  }
  static std::string Content(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
  }

  std::string folder_;
  FakeSource source_;
};

TEST_F(ObjectCacheTest, ReadsAnObjectOnce) {
  source_.objects["s3://b/set/train.txt"] = "0123456789";
  for (int i = 0; i < 3; ++i) {
    const auto file = Fetch("s3://b/set/train.txt");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(Content(file->path), "0123456789");
  }
  EXPECT_EQ(source_.bytes, 10);
}

TEST_F(ObjectCacheTest, ObjectsOfAFolderLieBesideEachOther) {
  source_.objects = {{"s3://b/set/train.txt", "a"}, {"s3://b/set/labels.txt", "b"}};
  const auto data = Fetch("s3://b/set/train.txt");
  const auto names = Fetch("s3://b/set/labels.txt");
  ASSERT_TRUE(data.ok() && names.ok());
  EXPECT_EQ(std::filesystem::path(data->path).parent_path(),
            std::filesystem::path(names->path).parent_path());
  source_.objects.erase("s3://b/set/labels.txt");
  EXPECT_TRUE(absl::IsNotFound(Fetch("s3://b/set/labels.txt").status()));
  EXPECT_FALSE(std::filesystem::exists(names->path));
}

TEST_F(ObjectCacheTest, GoesOnWithAPart) {
  source_.objects["s3://b/train.txt"] = "0123456789";
  source_.dies_after = 6;
  EXPECT_TRUE(absl::IsUnavailable(Fetch("s3://b/train.txt").status()));
  source_.dies_after.reset();
  const auto file = Fetch("s3://b/train.txt");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Content(file->path), "0123456789");
  EXPECT_EQ(source_.bytes, 10);
}

TEST_F(ObjectCacheTest, APartOfAnotherVersionIsNotUsed) {
  source_.objects["s3://b/train.txt"] = "0123456789";
  source_.dies_after = 6;
  EXPECT_FALSE(Fetch("s3://b/train.txt").ok());
  source_.dies_after.reset();
  source_.objects["s3://b/train.txt"] = "abcdefgh";
  const auto file = Fetch("s3://b/train.txt");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Content(file->path), "abcdefgh");
}

TEST_F(ObjectCacheTest, ANewVersionTakesThePlaceOfTheOld) {
  source_.objects["s3://b/train.txt"] = "old";
  const auto old = Fetch("s3://b/train.txt");
  ASSERT_TRUE(old.ok()) << old.status();
  std::ifstream open_before(old->path);
  source_.objects["s3://b/train.txt"] = "newer";
  const auto file = Fetch("s3://b/train.txt");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Content(file->path), "newer");
  std::string line;
  EXPECT_TRUE(std::getline(open_before, line));
  EXPECT_EQ(line, "old");
}

TEST_F(ObjectCacheTest, ATornWriteOfTheVersionIsReadAgain) {
  source_.objects["s3://b/train.txt"] = "0123456789";
  const auto file = Fetch("s3://b/train.txt");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::filesystem::path path = file->path;
  std::ofstream(path.parent_path() / ".train.txt.version") << "{\"etag\": ";
  ASSERT_TRUE(Fetch("s3://b/train.txt").ok());
  EXPECT_EQ(source_.bytes, 20);
}

TEST_F(ObjectCacheTest, WhatNobodyUsesMakesRoom) {
  source_.objects = {{"s3://b/1/x", std::string(60, '1')},
                     {"s3://b/2/x", std::string(60, '2')},
                     {"s3://b/3/x", std::string(101, '3')}};
  std::string first;
  {
    const auto file = Fetch("s3://b/1/x");
    ASSERT_TRUE(file.ok()) << file.status();
    first = file->path;
    // It is in use.
    const auto refused = Fetch("s3://b/2/x");
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.status().message(), HasSubstr("of which others are in use"));
    EXPECT_THAT(refused.status().message(), HasSubstr("DSLIDE_DATA_CACHE_SIZE"));
    EXPECT_TRUE(std::filesystem::exists(first));
  }
  const auto second = Fetch("s3://b/2/x");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_THAT(Fetch("s3://b/3/x").status().message(), HasSubstr("s3://b/3/x has 101 bytes"));
}

TEST_F(ObjectCacheTest, RefusesAFolderOfEverybody) {
  source_.objects["s3://b/x"] = "1";
  ASSERT_EQ(mkdir((folder_ + "/cache").c_str(), 0777), 0);
  ASSERT_EQ(chmod((folder_ + "/cache").c_str(), 0777), 0);
  EXPECT_THAT(Fetch("s3://b/x").status().message(), HasSubstr("may be written by every user"));
}

}  // namespace
}  // namespace dslide

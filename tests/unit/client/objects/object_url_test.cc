#include "client/objects/object_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dslide {
namespace {

using testing::HasSubstr;

TEST(ObjectUrlTest, TellsUrlsFromPaths) {
  EXPECT_TRUE(IsObjectUrl("s3://bucket/train.txt"));
  EXPECT_TRUE(IsObjectUrl("azure://bucket/train.txt"));
  EXPECT_FALSE(IsObjectUrl("train.txt"));
  EXPECT_FALSE(IsObjectUrl("/data/a://b"));
  EXPECT_FALSE(IsObjectUrl("://x"));
}

TEST(ObjectUrlTest, KeysOfStoresMayHoldAnyCharacter) {
  const auto url = ParseObjectUrl("s3://bucket/my set/a?b#c.txt");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->kind, ObjectStoreKind::kS3);
  EXPECT_EQ(url->bucket, "bucket");
  EXPECT_EQ(url->key, "my set/a?b#c.txt");
  EXPECT_EQ(url->name, "a?b#c.txt");
  EXPECT_FALSE(url->has_query);
  EXPECT_EQ(EscapeObjectKey(url->key), "my%20set/a%3Fb%23c.txt");
}

TEST(ObjectUrlTest, QueriesOfHttpAreNotShown) {
  const auto url = ParseObjectUrl("https://host:8443/set/train.txt?X-Amz-Signature=secret#x");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_EQ(url->shown, "https://host:8443/set/train.txt");
  EXPECT_EQ(url->address, "https://host:8443/set/train.txt?X-Amz-Signature=secret");
  EXPECT_EQ(url->folder, "https://host:8443/set/");
  EXPECT_EQ(url->name, "train.txt");
  EXPECT_TRUE(url->has_query);
}

TEST(ObjectUrlTest, WhatLiesBeside) {
  const auto s3 = ParseObjectUrl("s3://bucket/set/train.txt");
  ASSERT_TRUE(s3.ok()) << s3.status();
  const ObjectUrl beside = ObjectBeside(*s3, "labels.txt");
  EXPECT_EQ(beside.shown, "s3://bucket/set/labels.txt");
  EXPECT_EQ(beside.key, "set/labels.txt");
  EXPECT_EQ(beside.folder, s3->folder);
  const auto top = ParseObjectUrl("gs://bucket/train.txt");
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_EQ(ObjectBeside(*top, "labels.txt").key, "labels.txt");
  const auto http = ParseObjectUrl("http://host/train.txt");
  ASSERT_TRUE(http.ok()) << http.status();
  EXPECT_EQ(ObjectBeside(*http, "labels.txt").address, "http://host/labels.txt");
}

TEST(ObjectUrlTest, RefusesWhatIsNoObject) {
  for (const std::string text :
       {"azure://a/b", "s3://", "s3:///key", "s3://bucket", "s3://bucket/", "s3://bucket/a/..",
        "https://host", "https://host/", "https:///x", "http://host/a\nb"}) {
    const auto url = ParseObjectUrl(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(url.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(url.status().message(), HasSubstr("expected s3://BUCKET/KEY")) << text;
  }
}

TEST(ObjectUrlTest, RefusesPasswordsWithoutRepeatingThem) {
  const auto url = ParseObjectUrl("https://me:secret@host/train.txt");
  ASSERT_FALSE(url.ok());
  EXPECT_EQ(url.status().message(),
            "https://host/train.txt: a password in a URL ends up in logs; put it into ~/.netrc");
}

}  // namespace
}  // namespace dslide

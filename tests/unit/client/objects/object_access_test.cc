#include "client/objects/object_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace dslide {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

using Variables = std::map<std::string, std::string>;

struct Found {
  TransferRequest request = {};
  std::string source = {};
};

// None of these asks anybody.
absl::StatusOr<Found> Access(const std::string& text, const Variables& variables) {
  const Environment environment = [&variables](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
  const absl::StatusOr<ObjectUrl> url = ParseObjectUrl(text);
  if (!url.ok()) return url.status();
  ObjectTransfer transfer(nullptr);
  const auto identity = FindIdentity(url->kind, environment, absl::Seconds(1), transfer);
  if (!identity.ok()) return identity.status();
  const auto access = AccessTo(*url, *identity, environment);
  if (!access.ok()) return access.status();
  return Found{access->request, identity->source};
}

const Variables kKeys = {{"AWS_ACCESS_KEY_ID", "AKIA1"}, {"AWS_SECRET_ACCESS_KEY", "hidden"}};

TEST(ObjectAccessTest, S3IsSignedForTheRegion) {
  Variables variables = kKeys;
  variables["AWS_DEFAULT_REGION"] = "eu-west-1";
  variables["AWS_SESSION_TOKEN"] = "token";
  const auto access = Access("s3://bucket/a b.txt", variables);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->request.url, "https://bucket.s3.eu-west-1.amazonaws.com/a%20b.txt");
  EXPECT_EQ(access->request.aws_sigv4, "aws:amz:eu-west-1:s3");
  EXPECT_EQ(access->request.access_key, "AKIA1");
  EXPECT_EQ(access->request.secret_key, "hidden");
  EXPECT_THAT(access->request.headers, Contains("x-amz-security-token: token"));
  EXPECT_EQ(access->source, "AWS_ACCESS_KEY_ID AKIA1");
}

TEST(ObjectAccessTest, OtherStoresHaveTheBucketInThePath) {
  Variables variables = kKeys;
  variables["AWS_ENDPOINT_URL"] = "http://store:9000/";
  const auto access = Access("s3://bucket/set/train.txt", variables);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->request.url, "http://store:9000/bucket/set/train.txt");
  EXPECT_EQ(access->request.aws_sigv4, "aws:amz:us-east-1:s3");
  variables["AWS_ENDPOINT_URL"] = "store:9000";
  EXPECT_THAT(Access("s3://bucket/x", variables).status().message(),
              HasSubstr("AWS_ENDPOINT_URL store:9000: expected https://HOST"));
}

TEST(ObjectAccessTest, DotsAreNoPartsOfASignedKey) {
  for (const char* const url : {"s3://bucket/../x", "s3://bucket/a/./x"}) {
    EXPECT_THAT(Access(url, kKeys).status().message(),
                HasSubstr("which no signed request can ask for"))
        << url;
    EXPECT_TRUE(Access(url, {}).ok()) << url;
  }
  EXPECT_TRUE(Access("s3://bucket/a../.x/...", kKeys).ok());
}

TEST(ObjectAccessTest, NobodyIsEnoughForPublicBuckets) {
  const auto access = Access("s3://my.bucket/train.txt", {});
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->request.url, "https://s3.us-east-1.amazonaws.com/my.bucket/train.txt");
  EXPECT_EQ(access->request.aws_sigv4, "");
  EXPECT_THAT(access->request.headers, IsEmpty());
}

TEST(ObjectAccessTest, HalfOfAKeyIsNone) {
  EXPECT_EQ(Access("s3://bucket/x", {{"AWS_ACCESS_KEY_ID", "AKIA1"}}).status().message(),
            "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not: set both, or none for a "
            "public bucket");
  EXPECT_THAT(
      Access("s3://bucket/x", {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/none"}}).status().message(),
      HasSubstr("AWS_ROLE_ARN is not"));
  EXPECT_THAT(
      Access("s3://bucket/x", {{"AWS_WEB_IDENTITY_TOKEN_FILE", "/none"}, {"AWS_ROLE_ARN", "arn:x"}})
          .status()
          .message(),
      HasSubstr("AWS_WEB_IDENTITY_TOKEN_FILE /none cannot be read"));
}

TEST(ObjectAccessTest, GoogleTakesAToken) {
  const auto access = Access("gs://bucket/train.txt", {{"CLOUDSDK_AUTH_ACCESS_TOKEN", "ya29"}});
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->request.url, "https://storage.googleapis.com/bucket/train.txt");
  EXPECT_THAT(access->request.headers, Contains("Authorization: Bearer ya29"));
}

TEST(ObjectAccessTest, HttpSendsNoKeysOfStores) {
  const auto access = Access("https://host/train.txt?x=1", kKeys);
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_EQ(access->request.url, "https://host/train.txt?x=1");
  EXPECT_EQ(access->request.aws_sigv4, "");
  EXPECT_EQ(access->request.secret_key, "");
}

TEST(ObjectAccessTest, XmlElements) {
  EXPECT_EQ(XmlElement("<Error><Code>NoSuchKey</Code></Error>", "Code"), "NoSuchKey");
  EXPECT_EQ(XmlElement("<Error><Code>NoSuch", "Code"), "");
  EXPECT_EQ(XmlElement("", "Code"), "");
}

}  // namespace
}  // namespace dslide

#include "services/coordinator/rpc/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/reason.h"

namespace dslide::coordinator {
namespace {

using ::testing::HasSubstr;

TEST(PageTest, BeginsAtTheBeginningWithAUsualSize) {
  const auto page = DecodePage("models", 0, "");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->size, kDefaultPageSize);
  EXPECT_EQ(page->after, "");
  EXPECT_EQ(DecodeNumberedPage("operations", 7, "")->after, UINT64_MAX);
  EXPECT_EQ(DecodeNumberedPage("operations", 7, "")->size, 7);
}

TEST(PageTest, ATokenLeadsBehindItsEntry) {
  EXPECT_EQ(DecodePage("models", 5, EncodePageToken("models", "a:b"))->after, "a:b");
  EXPECT_EQ(DecodeNumberedPage("operations", 5, EncodePageToken("operations", "12"))->after, 12u);
}

TEST(PageTest, APageEndsByEntriesOrByBytes) {
  struct Entry {
    size_t bytes;
    size_t ByteSizeLong() const { return bytes; }
  };
  PageMeter entries(2);
  entries.Add(Entry{1});
  EXPECT_FALSE(entries.full());
  entries.Add(Entry{1});
  EXPECT_TRUE(entries.full());
  PageMeter bytes(1000);
  EXPECT_FALSE(bytes.full()) << "one entry has room, however large";
  bytes.Add(Entry{kMaxPageBytes});
  EXPECT_TRUE(bytes.full());
}

TEST(PageTest, SizesBeyondTheirRangeAreNamed) {
  EXPECT_TRUE(DecodePage("models", kMaxPageSize, "").ok());
  for (const int32_t size : {-1, kMaxPageSize + 1}) {
    const absl::Status refused = DecodePage("models", size, "").status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_EQ(ReasonOf(refused), "OUT_OF_RANGE");
    EXPECT_THAT(refused.message(), HasSubstr(std::to_string(size)));
  }
}

TEST(PageTest, TokensOfOthersAreRefused) {
  for (const std::string& token :
       {std::string("x"), std::string("%%%"), std::string(100, 'A'), std::string("m"),
        EncodePageToken("models", ""), EncodePageToken("operations", "1")}) {
    const absl::Status refused = DecodePage("models", 0, token).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << token << refused;
    EXPECT_EQ(ReasonOf(refused), "BAD_PAGE_TOKEN");
  }
  for (const char* key : {"a", "-1", "99999999999999999999999"}) {
    EXPECT_EQ(
        ReasonOf(DecodeNumberedPage("operations", 0, EncodePageToken("operations", key)).status()),
        "BAD_PAGE_TOKEN")
        << key;
  }
}

}  // namespace
}  // namespace dslide::coordinator

#include "core/wire/request_id.h"

#include <gtest/gtest.h>

#include <set>

#include "core/base/reason.h"
#include "core/base/retry_after.h"

namespace dslide::wire {
namespace {

TEST(RequestIdTest, OnlyWordsOfVisibleAsciiAreIds) {
  for (const char* id : {"4f1c", "a", "[job/7:\"x\"]"}) EXPECT_EQ(RequestIdOrNew(id), id);
  EXPECT_EQ(RequestIdOrNew(std::string(64, 'x')), std::string(64, 'x'));
  for (const std::string& other :
       {std::string(), std::string(65, 'x'), std::string("two words"), std::string("line\n"),
        std::string("caf\xc3\xa9"), std::string("nul\0", 4), std::string("\x7f")}) {
    EXPECT_FALSE(IsRequestId(other));
    const std::string id = RequestIdOrNew(other);
    EXPECT_EQ(id.size(), 16u);
    EXPECT_TRUE(IsRequestId(id)) << id;
  }
}

TEST(RequestIdTest, NewIdsDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(RequestIdOrNew(""));
  EXPECT_EQ(ids.size(), 1000u);
}

TEST(RequestIdTest, NamingARequestKeepsWhatProgramsRead) {
  const absl::Status named =
      NameRequest(OverloadStatus("QUEUE_FULL", "wait", absl::Milliseconds(30)), "4f1c");
  EXPECT_EQ(named.message(), "wait (request 4f1c)");
  EXPECT_TRUE(absl::IsResourceExhausted(named));
  EXPECT_EQ(ReasonOf(named), "QUEUE_FULL");
  EXPECT_EQ(RetryAfterMs(named), 30);
}

}  // namespace
}  // namespace dslide::wire

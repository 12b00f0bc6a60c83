#include "services/common/failed_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/base/reason.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string LoggedBy(int times, const absl::Status& error) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < times; ++i) LogFailure("TopK", "4f1c", error);
  return ::testing::internal::GetCapturedStderr();
}

int64_t Lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(FailedCallTest, TheLineNamesTheRequestAndWhatWasWrong) {
  const std::string line =
      LoggedBy(1, StatusWithReason(absl::StatusCode::kInternal, "A_WORD", "a text"));
  EXPECT_THAT(line, HasSubstr(" ERROR call failed request=4f1c method=TopK code=INTERNAL "
                              "reason=A_WORD error=\"a text\""));
}

TEST(FailedCallTest, ACallerThatHasGoneIsADetail) {
  EXPECT_THAT(LoggedBy(1, absl::CancelledError("gone")), IsEmpty());
}

TEST(FailedCallTest, ManyRefusalsAreFewLinesAndFaultsOfTheServerAreAll) {
  const std::string refusals = LoggedBy(10'000, absl::NotFoundError("no model"));
  EXPECT_GE(Lines(refusals), 1);
  EXPECT_LE(Lines(refusals), 100);
  EXPECT_EQ(Lines(LoggedBy(200, absl::DataLossError("damaged"))), 200);
}

TEST(FailedCallTest, TheCallersIdIsInTheMetadata) {
  CallMetadata metadata = {{"x-request-id", "4f1c"}, {"x-other", "no"}};
  EXPECT_EQ(RequestIdOf(metadata), "4f1c");
  EXPECT_EQ(RequestIdOf({}).size(), 16u);
}

}  // namespace
}  // namespace dslide

#include "core/wire/status_details.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"

namespace dslide::wire {
namespace {

TEST(StatusDetailsTest, ReasonAndPauseComeBack) {
  const absl::Status sent =
      OverloadStatus("STEP_CONTEXTS_FULL", "17 contexts are open", absl::Milliseconds(1250));
  absl::Status received(sent.code(), sent.message());
  DecodeStatusDetails(EncodeStatusDetails(sent), received);
  EXPECT_EQ(ReasonOf(received), "STEP_CONTEXTS_FULL");
  EXPECT_EQ(RetryAfterMs(received), 1250);
  EXPECT_EQ(received.message(), "17 contexts are open");
}

TEST(StatusDetailsTest, PlainStatusesHaveNoDetails) {
  EXPECT_EQ(EncodeStatusDetails(absl::OkStatus()), "");
  EXPECT_EQ(EncodeStatusDetails(absl::InternalError("x")), "");
}

TEST(StatusDetailsTest, TheRequestIdComesBack) {
  absl::Status received = absl::InternalError("x");
  EXPECT_EQ(DecodeStatusDetails(EncodeStatusDetails(received, "4f1c"), received), "4f1c");
  EXPECT_EQ(DecodeStatusDetails(EncodeStatusDetails(received, "two words"), received), "");
  EXPECT_EQ(EncodeStatusDetails(absl::OkStatus(), "4f1c"), "");
}

TEST(StatusDetailsTest, GarbageIsIgnored) {
  absl::Status status = absl::InternalError("x");
  DecodeStatusDetails("\xff\xff\xff garbage", status);
  DecodeStatusDetails("", status);
  EXPECT_EQ(status, absl::InternalError("x"));
  absl::Status ok;
  DecodeStatusDetails(EncodeStatusDetails(StatusWithReason(absl::StatusCode::kAborted, "A", "b")),
                      ok);
  EXPECT_TRUE(ok.ok());
}

TEST(StatusDetailsTest, MessagesAreValidAndBounded) {
  EXPECT_EQ(ErrorMessageForWire("plain \xc3\xa9"), "plain \xc3\xa9");
  EXPECT_EQ(ErrorMessageForWire("bad \xff\xc3 \xed\xa0\x80 end"), "bad ?? ??? end");
  const std::string cut = ErrorMessageForWire(
      absl::StrCat(std::string(kMaxErrorMessageBytes - 1, 'a'), "\xe2\x82\xac"));
  EXPECT_EQ(cut, std::string(kMaxErrorMessageBytes - 1, 'a'));
}

}  // namespace
}  // namespace dslide::wire

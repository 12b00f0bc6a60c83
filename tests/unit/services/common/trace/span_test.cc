#include "services/common/trace/span.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace dslide {
namespace {

constexpr char kSpanParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
constexpr char kUnsampled[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

class SpanTest : public testing::Test, public SpanSink {
 protected:
  void SetUp() override { SetSpanSink(this); }
  void TearDown() override { SetSpanSink(nullptr); }
  void Record(SpanRecord record) override { records_.push_back(std::move(record)); }
  double sample() const override { return sample_; }

  std::vector<SpanRecord> records_;
  double sample_ = 1;
};

TEST_F(SpanTest, IsBelowItsParent) {
  const TraceContext parent = ParseTraceparent(kSpanParent);
  Span span = Span::Follow("work", SpanKind::kServer, parent);
  EXPECT_EQ(span.context().trace_id, parent.trace_id);
  EXPECT_NE(span.context().span_id, parent.span_id);
  span.SetAttribute("key", "value");
  span.End(absl::InternalError("broken"));
  span.End(absl::OkStatus());
  ASSERT_EQ(records_.size(), 1);
  EXPECT_EQ(records_[0].parent, parent.span_id);
  EXPECT_EQ(records_[0].context.span_id, span.context().span_id);
  EXPECT_EQ(records_[0].name, "work");
  EXPECT_EQ(records_[0].kind, SpanKind::kServer);
  EXPECT_EQ(records_[0].status, absl::InternalError("broken"));
  EXPECT_EQ(records_[0].attributes[0], std::make_pair(std::string("key"), std::string("value")));
  EXPECT_LE(records_[0].start, records_[0].end);
}

TEST_F(SpanTest, FollowsNobody) {
  EXPECT_FALSE(Span::Follow("work", SpanKind::kServer, {}).context().valid());
  EXPECT_TRUE(records_.empty());
}

TEST_F(SpanTest, BeginsATrace) {
  const TraceContext first = Span::Begin("work", SpanKind::kInternal, {}).context();
  const TraceContext second = Span::Begin("work", SpanKind::kInternal, {}).context();
  EXPECT_TRUE(first.valid() && first.sampled);
  EXPECT_NE(first.trace_id, second.trace_id);
  ASSERT_EQ(records_.size(), 2);
  EXPECT_EQ(records_[0].parent, TraceContext().span_id);
}

TEST_F(SpanTest, OneThatIsNotEndedWasGivenUp) {
  { const Span span = Span::Begin("work", SpanKind::kInternal, {}); }
  ASSERT_EQ(records_.size(), 1);
  EXPECT_TRUE(absl::IsCancelled(records_[0].status));
}

TEST_F(SpanTest, IsKeptWhereItsCallersIs) {
  sample_ = 0;
  EXPECT_TRUE(
      Span::Begin("work", SpanKind::kServer, ParseTraceparent(kSpanParent)).context().sampled);
  EXPECT_EQ(records_.size(), 1);
  sample_ = 1;
  const Span span = Span::Begin("work", SpanKind::kServer, ParseTraceparent(kUnsampled));
  EXPECT_EQ(span.context().ToTraceparent(), kUnsampled);
  EXPECT_EQ(records_.size(), 1);
}

TEST_F(SpanTest, KeepsTheShareOfTraces) {
  sample_ = 0.25;
  int kept = 0;
  for (int i = 0; i < 4000; ++i) {
    const Span span = Span::Begin("work", SpanKind::kInternal, {});
    EXPECT_TRUE(span.context().valid());  // callees learn that it is not kept
    kept += span.context().sampled ? 1 : 0;
  }
  EXPECT_NEAR(kept, 1000, 150);  // five standard deviations
}

TEST_F(SpanTest, WithoutASinkCallersAreHandedOn) {
  SetSpanSink(nullptr);
  EXPECT_EQ(Span::Begin("work", SpanKind::kServer, ParseTraceparent(kSpanParent))
                .context()
                .ToTraceparent(),
            kSpanParent);
  EXPECT_FALSE(Span::Begin("work", SpanKind::kServer, {}).context().valid());
}

}  // namespace
}  // namespace dslide

#include "core/net/trace/trace_context.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace dslide {
namespace {

constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContextTest, ReadsAndWritesTheHeader) {
  const TraceContext context = ParseTraceparent(kParent);
  ASSERT_TRUE(context.valid());
  EXPECT_TRUE(context.sampled);
  EXPECT_EQ(context.trace_id[0], 0x4b);
  EXPECT_EQ(context.span_id[7], 0xb7);
  EXPECT_EQ(context.ToTraceparent(), kParent);
}

TEST(TraceContextTest, AnUnsampledTraceIsOneToo) {
  std::string text = kParent;
  text.back() = '0';
  EXPECT_TRUE(ParseTraceparent(text).valid());
  EXPECT_FALSE(ParseTraceparent(text).sampled);
  text.back() = '2';  // a flag of later versions
  EXPECT_FALSE(ParseTraceparent(text).sampled);
}

TEST(TraceContextTest, LaterVersionsMayHaveMore) {
  std::string text = std::string("cc") + (kParent + 2) + "-what-else";
  EXPECT_TRUE(ParseTraceparent(text).valid());
  text[55] = '.';
  EXPECT_FALSE(ParseTraceparent(text).valid());
}

TEST(TraceContextTest, LeavesOutWhatIsNone) {
  for (const char* const text : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                                 "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
                                 "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                 "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                 "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
                                 "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                 "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                 "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"}) {
    EXPECT_FALSE(ParseTraceparent(text).valid()) << text;
  }
}

TEST(TraceContextTest, TheInnermostScopeCounts) {
  const TraceContext outer = ParseTraceparent(kParent);
  TraceContext inner = outer;
  inner.span_id[0] = 1;
  EXPECT_FALSE(CurrentTrace().valid());
  {
    const ScopedTrace outer_scope(outer);
    {
      const ScopedTrace inner_scope(inner);
      EXPECT_EQ(CurrentTrace().span_id, inner.span_id);
    }
    EXPECT_EQ(CurrentTrace().span_id, outer.span_id);
    bool other_thread_has_one = true;
    std::thread([&] { other_thread_has_one = CurrentTrace().valid(); }).join();
    EXPECT_FALSE(other_thread_has_one);
    const ScopedTrace none((TraceContext()));
    EXPECT_FALSE(CurrentTrace().valid());
  }
  EXPECT_FALSE(CurrentTrace().valid());
}

TEST(TraceContextTest, ThreadsWithoutAScopeHaveThatOfTheProcess) {
  SetProcessTrace(ParseTraceparent(kParent));
  std::string seen;
  std::thread([&] { seen = CurrentTrace().ToTraceparent(); }).join();
  SetProcessTrace({});
  EXPECT_EQ(seen, kParent);
}

}  // namespace
}  // namespace dslide

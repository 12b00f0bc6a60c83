#include "core/net/http/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusPageTest, EveryTextIsEscaped) {
  StatusPage page;
  page.facts = {{"<name>", "a & \"b\""}};
  page.tables = {{"t<1>", {"<h>"}, {{"<script>alert('x')</script>"}}}};
  const std::string html = RenderStatusPage("<title>", false, "not ready: <disk>", page);
  for (const char* raw : {"<name>", "\"b\"", "t<1>", "<h>", "<script", "<disk>", "<title><"}) {
    EXPECT_THAT(html, Not(HasSubstr(raw)));
  }
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
  EXPECT_THAT(html, HasSubstr("a &amp; &quot;b&quot;"));
}

TEST(StatusPageTest, TheStateIsTextAndNotOnlyColour) {
  EXPECT_THAT(RenderStatusPage("x", true, "ready", {}), HasSubstr("&#10003; ready"));
  EXPECT_THAT(RenderStatusPage("x", false, "not ready: slow", {}),
              HasSubstr("&#9888; not ready: slow"));
}

TEST(StatusPageTest, NumbersAreAlignedRightAndEmptyTablesLeftOut) {
  StatusPage page;
  page.tables = {{"full", {"a", "b"}, {{"12", "word"}}}, {"empty", {"a"}, {}}};
  const std::string html = RenderStatusPage("x", true, "ready", page);
  EXPECT_THAT(html, HasSubstr("<td class=\"n\">12</td><td>word</td>"));
  EXPECT_THAT(html, Not(HasSubstr("empty")));
}

TEST(StatusPageTest, FiguresAreReadable) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(PageCount(0), "0");
  EXPECT_EQ(PageCount(999), "999");
  EXPECT_EQ(PageCount(1234567), "1,234,567");
  EXPECT_EQ(PageCount(-123456), "-123,456");
  EXPECT_EQ(PageCount(nan), "-");
  EXPECT_EQ(PageBytes(999), "999 B");
  EXPECT_EQ(PageBytes(1500), "1.5 kB");
  EXPECT_EQ(PageBytes(999'600), "1.0 MB");
  EXPECT_EQ(PageBytes(123e9), "123 GB");
  EXPECT_EQ(PagePercent(0.9715), "97.2 %");
  EXPECT_EQ(PagePercent(nan), "-");
  EXPECT_EQ(PageSeconds(4.2e-5), "42 us");
  EXPECT_EQ(PageSeconds(0.0123), "12.3 ms");
  EXPECT_EQ(PageSeconds(65), "65.0 s");
  EXPECT_EQ(PageSeconds(7380), "2 h 3 min");
}

}  // namespace
}  // namespace dslide

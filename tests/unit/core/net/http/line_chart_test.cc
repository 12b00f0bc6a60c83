#include "core/net/http/line_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LineChartTest, ShowsItsRangeAndItsLastValueInWordsToo) {
  const std::string svg = RenderLineChart(
      {.title = "job <a>, P@1", .x_name = "epoch", .points = {{1, 0.25}, {3, 0.5}}});
  EXPECT_THAT(svg, AllOf(HasSubstr("job &lt;a&gt;, P@1: 0.5"), HasSubstr("epoch 1"),
                         HasSubstr("aria-label=\"job &lt;a&gt;, P@1, from 0.25 to 0.5 over epoch 1 "
                                   "to 3\""),
                         HasSubstr("points=\"60.0,124.0 468.0,26.0\""), Not(HasSubstr("<a>"))));
}

TEST(LineChartTest, OnePointAndAFlatLineAreInTheMiddle) {
  EXPECT_THAT(RenderLineChart({.title = "t", .x_name = "epoch", .points = {{1, 7}}}),
              HasSubstr("points=\"264.0,75.0\""));
  EXPECT_THAT(RenderLineChart({.title = "t", .x_name = "epoch", .points = {{1, 7}, {2, 7}}}),
              HasSubstr("points=\"60.0,75.0 468.0,75.0\""));
  EXPECT_EQ(RenderLineChart({.title = "t", .x_name = "epoch", .points = {}}), "");
}

}  // namespace
}  // namespace dslide

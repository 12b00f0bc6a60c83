#include "core/net/http/line_chart.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/net/http/html.h"

namespace dslide {
namespace {

constexpr double kWidth = 480, kHeight = 150;
// Room for the labels.
constexpr double kLeft = 60, kRight = 12, kTop = 26, kBottom = 26;

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>", x, y, anchor,
                         EscapeHtml(text));
}

std::string Number(double value) { return absl::StrFormat("%.4g", value); }

}  // namespace

std::string RenderLineChart(const LineChart& chart) {
  if (chart.points.empty()) return "";
  const auto by_y = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto range = std::minmax_element(chart.points.begin(), chart.points.end(), by_y);
  const double lowest = range.first->second;
  const double highest = range.second->second;
  const double first = chart.points.front().first;
  const double last = chart.points.back().first;
  const auto share = [](double value, double from, double to) {
    return to > from ? (value - from) / (to - from) : 0.5;
  };
  const auto x_of = [&](double x) {
    return kLeft + share(x, first, last) * (kWidth - kLeft - kRight);
  };
  const auto y_of = [&](double y) {
    return kHeight - kBottom - share(y, lowest, highest) * (kHeight - kTop - kBottom);
  };
  std::string line;
  for (const auto& [x, y] : chart.points) {
    absl::StrAppendFormat(&line, "%s%.1f,%.1f", line.empty() ? "" : " ", x_of(x), y_of(y));
  }
  const std::string now = Number(chart.points.back().second);
  const std::string words =
      absl::StrFormat("%s, from %s to %s over %s %g to %g", chart.title,
                      Number(chart.points.front().second), now, chart.x_name, first, last);
  return absl::StrCat(
      "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 480 150\" aria-label=\"", EscapeHtml(words),
      "\">", Text(0, 14, "start", absl::StrCat(chart.title, ": ", now)),
      Text(kLeft - 6, kTop + 4, "end", Number(highest)),
      Text(kLeft - 6, kHeight - kBottom, "end", Number(lowest)),
      Text(kLeft, kHeight - 6, "start", absl::StrCat(chart.x_name, " ", Number(first))),
      Text(kWidth - kRight, kHeight - 6, "end", Number(last)),
      absl::StrFormat("<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\"/>", kLeft, kHeight - kBottom,
                      kWidth - kRight, kHeight - kBottom),
      "<polyline points=\"", line, "\"/>",
      absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/></svg>", x_of(last),
                      y_of(chart.points.back().second)));
}

}  // namespace dslide

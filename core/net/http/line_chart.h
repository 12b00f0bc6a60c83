// A small chart of lines as SVG, for a page.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dslide {

struct LineChart {
  std::string title;                                   // "job run-1: P@1"
  std::string x_name;                                  // "epoch"
  std::vector<std::pair<double, double>> points = {};  // (x, y), x ascending, all finite
};

// An <svg> element with its axis labels and the last value; empty without points. Texts are
// escaped. It is as wide as what it stands in, and has the words that a screen reader needs.
std::string RenderLineChart(const LineChart& chart);

}  // namespace dslide

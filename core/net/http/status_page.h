// The page for people on the admin port: what a service says about itself, as plain HTML.
//
// No scripts, nothing from elsewhere; every text is escaped. Good and bad are told apart by words
// and shapes as well as by colours that colour-blind readers can tell apart.

#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/net/http/line_chart.h"

namespace dslide {

struct StatusFact {
  std::string name;
  std::string value;
};

struct StatusTable {
  std::string title;
  std::vector<std::string> header;
  // Of as many cells as the header. Cells that begin with a digit are aligned right.
  std::vector<std::vector<std::string>> rows;
};

// What stands on the page, from top to bottom.
struct StatusPage {
  std::vector<StatusFact> facts = {};
  std::vector<StatusTable> tables = {};
  std::vector<LineChart> charts = {};
};

// Parts of other pages that look so. Texts are escaped.
std::string RenderTable(const StatusTable& table);
std::string RenderFacts(const std::vector<StatusFact>& facts);
// The whole document, headed by its title; readable on a phone, light or dark as the reader's
// system is. `head` and `body` are HTML.
std::string RenderDocument(absl::string_view title, absl::string_view head, absl::string_view body);

// The whole document. `state` is "ready", or says why not.
std::string RenderStatusPage(absl::string_view title, bool ready, absl::string_view state,
                             const StatusPage& page);

// For cells: "1,234,567", and "12.3 MB" (powers of 1000).
std::string PageCount(double count);
std::string PageBytes(double bytes);
// "12.3 %" of a share; "-" for what is no number.
std::string PagePercent(double share);
// "12.3 ms", "4.5 s", "2 h 3 min"; "-" for what is no number.
std::string PageSeconds(double seconds);

}  // namespace dslide

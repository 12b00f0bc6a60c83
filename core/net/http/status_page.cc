#include "core/net/http/status_page.h"

#include <cctype>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/version.h"
#include "core/net/http/html.h"

namespace dslide {
namespace {

// Blue and orange of the Okabe-Ito palette, which readers of all kinds of colour vision tell apart;
// lighter ones of the same hues on dark ground.
constexpr char kStyle[] =
    ":root{color-scheme:light dark;--text:#1a1a1a;--ground:#fff;--soft:#555;--line:#ccc;"
    "--good:#0072b2;--bad:#a04000;--curve:#0072b2}"
    "@media(prefers-color-scheme:dark){:root{--text:#e8e8e8;--ground:#16181b;--soft:#aaa;"
    "--line:#444;--curve:#56b4e9}a{color:#56b4e9}}"
    "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;"
    "color:var(--text);background:var(--ground);overflow-wrap:anywhere}"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}"
    "table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);"
    "vertical-align:top}"
    "th{font-weight:600;color:var(--soft)}.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".state{display:inline-block;margin:.6rem 0;padding:.15rem .6rem;border-radius:.3rem;"
    "color:#fff}.ready{background:var(--good)}.not{background:var(--bad)}"
    ".wide{overflow-x:auto}.wide th,.wide td{overflow-wrap:normal}"
    ".chart{width:100%;max-width:30rem;font-size:12px;margin-right:1rem}"
    ".chart text{fill:var(--soft)}.chart line{stroke:var(--soft)}"
    ".chart polyline{fill:none;stroke:var(--curve);stroke-width:2}.chart circle{fill:var(--curve)}"
    "pre{white-space:pre-wrap;padding:.6rem;border:1px solid var(--line);border-radius:.3rem}"
    ".small{color:var(--soft);font-size:.85rem}nav a{margin-right:1rem}";

bool IsNumber(absl::string_view cell) {
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell[0])) != 0;
}

}  // namespace

std::string RenderTable(const StatusTable& table) {
  std::string html =
      absl::StrCat("<h2>", EscapeHtml(table.title), "</h2><div class=\"wide\"><table><thead><tr>");
  for (size_t i = 0; i < table.header.size(); ++i) {
    const bool number =
        !table.rows.empty() && i < table.rows[0].size() && IsNumber(table.rows[0][i]);
    absl::StrAppend(&html, number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">",
                    EscapeHtml(table.header[i]), "</th>");
  }
  absl::StrAppend(&html, "</tr></thead><tbody>");
  for (const std::vector<std::string>& row : table.rows) {
    absl::StrAppend(&html, "<tr>");
    for (const std::string& cell : row) {
      absl::StrAppend(&html, IsNumber(cell) ? "<td class=\"n\">" : "<td>", EscapeHtml(cell),
                      "</td>");
    }
    absl::StrAppend(&html, "</tr>");
  }
  return absl::StrCat(html, "</tbody></table></div>");
}

std::string RenderFacts(const std::vector<StatusFact>& facts) {
  std::string html = "<table><tbody>";
  for (const StatusFact& fact : facts) {
    absl::StrAppend(&html, "<tr><th scope=\"row\">", EscapeHtml(fact.name), "</th><td>",
                    EscapeHtml(fact.value), "</td></tr>");
  }
  return absl::StrCat(html, "</tbody></table>");
}

std::string RenderDocument(absl::string_view title, absl::string_view head,
                           absl::string_view body) {
  return absl::StrCat(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
      head, "<title>", EscapeHtml(title), "</title><style>", kStyle, "</style></head><body><h1>",
      EscapeHtml(title), "</h1>", body, "</body></html>\n");
}

std::string RenderStatusPage(absl::string_view title, bool ready, absl::string_view state,
                             const StatusPage& page) {
  std::string html =
      absl::StrCat("<div class=\"small\">", EscapeHtml(VersionLine(std::string(title).c_str())),
                   "</div><div class=\"state ", ready ? "ready\">&#10003; " : "not\">&#9888; ",
                   EscapeHtml(state), "</div>");
  if (!page.facts.empty()) absl::StrAppend(&html, RenderFacts(page.facts));
  for (const StatusTable& table : page.tables) {
    if (!table.rows.empty()) absl::StrAppend(&html, RenderTable(table));
  }
  for (const LineChart& chart : page.charts) absl::StrAppend(&html, RenderLineChart(chart));
  absl::StrAppend(&html,
                  "<h2>More</h2><nav><a href=\"/metrics\">/metrics</a> "
                  "<a href=\"/readyz\">/readyz</a> <a href=\"/livez\">/livez</a></nav>"
                  "<p class=\"small\">Sums since the start of the process; renewed every 5 "
                  "seconds.</p>");
  return RenderDocument(title, "<meta http-equiv=\"refresh\" content=\"5\">", html);
}

std::string PageCount(double count) {
  if (!std::isfinite(count)) return "-";
  const std::string digits = absl::StrFormat("%.0f", std::abs(count));
  std::string text = count <= -0.5 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string PageBytes(double bytes) {
  if (!std::isfinite(bytes)) return "-";
  const char* const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (std::abs(bytes) >= 999.5 && unit + 1 < std::size(units)) {
    bytes /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || std::abs(bytes) >= 99.95 ? 0 : 1;
  return absl::StrFormat("%.*f %s", digits, bytes, units[unit]);
}

std::string PagePercent(double share) {
  return std::isfinite(share) ? absl::StrFormat("%.1f %%", 100 * share) : "-";
}

std::string PageSeconds(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  if (seconds < 1e-3) return absl::StrFormat("%.0f us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * 1e3);
  if (seconds < 120) return absl::StrFormat("%.1f s", seconds);
  const auto minutes = static_cast<int64_t>(seconds / 60);
  return absl::StrFormat("%d h %d min", minutes / 60, minutes % 60);
}

}  // namespace dslide

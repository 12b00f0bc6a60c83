#include "core/net/metrics/metrics_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

absl::StatusOr<double> ParseValue(absl::string_view text) {
  double value = 0;
  if (absl::EqualsIgnoreCase(text, "+inf")) return std::numeric_limits<double>::infinity();
  if (absl::EqualsIgnoreCase(text, "-inf")) return -std::numeric_limits<double>::infinity();
  if (absl::EqualsIgnoreCase(text, "nan")) return std::numeric_limits<double>::quiet_NaN();
  if (absl::SimpleAtod(text, &value)) return value;
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no number"));
}

// Takes `name="value"` from the front of `text`, which begins behind '{' or ','.
absl::Status TakeLabel(absl::string_view& text, MetricSample& sample) {
  const size_t equals = text.find("=\"");
  if (equals == absl::string_view::npos) return absl::InvalidArgumentError("a label has no value");
  const std::string name(absl::StripAsciiWhitespace(text.substr(0, equals)));
  std::string value;
  size_t at = equals + 2;
  for (; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && at + 1 < text.size()) {
      ++at;
      value += text[at] == 'n' ? '\n' : text[at];
    } else {
      value += text[at];
    }
  }
  if (at >= text.size()) return absl::InvalidArgumentError("a label's value does not end");
  sample.labels[name] = value;
  text.remove_prefix(at + 1);
  return absl::OkStatus();
}

// One line that is neither empty nor a comment. Returns the name of its series.
absl::StatusOr<std::string> ParseLine(absl::string_view line, MetricSample& sample) {
  const size_t end = line.find_first_of("{ \t");
  if (end == absl::string_view::npos || end == 0) {
    return absl::InvalidArgumentError("a name and a value are expected");
  }
  std::string name(line.substr(0, end));
  line.remove_prefix(end);
  if (line[0] == '{') {
    line.remove_prefix(1);
    while (!line.empty() && line[0] != '}') {
      RETURN_IF_ERROR(TakeLabel(line, sample));
      if (!line.empty() && line[0] == ',') line.remove_prefix(1);
    }
    if (line.empty()) return absl::InvalidArgumentError("the labels do not end");
    line.remove_prefix(1);
  }
  line = absl::StripAsciiWhitespace(line);
  ASSIGN_OR_RETURN(sample.value, ParseValue(line.substr(0, line.find_first_of(" \t"))));
  return name;
}

bool Matches(const MetricSample& sample, const MetricLabels& labels) {
  return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
    const auto found = sample.labels.find(label.first);
    return found != sample.labels.end() && found->second == label.second;
  });
}

}  // namespace

absl::StatusOr<MetricsText> MetricsText::Parse(absl::string_view text) {
  MetricsText page;
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    MetricSample sample;
    absl::StatusOr<std::string> name = ParseLine(line, sample);
    if (!name.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("metrics page, line ", number, ": ", name.status().message()));
    }
    page.series_[*name].push_back(std::move(sample));
  }
  // A registry has no order of its own.
  for (auto& [name, samples] : page.series_) {
    std::sort(samples.begin(), samples.end(),
              [](const MetricSample& a, const MetricSample& b) { return a.labels < b.labels; });
  }
  return page;
}

const std::vector<MetricSample>& MetricsText::Series(const std::string& name) const {
  static const auto* const none = new std::vector<MetricSample>();
  const auto found = series_.find(name);
  return found == series_.end() ? *none : found->second;
}

double MetricsText::Sum(const std::string& name, const MetricLabels& labels) const {
  double sum = 0;
  for (const MetricSample& sample : Series(name)) {
    if (Matches(sample, labels)) sum += sample.value;
  }
  return sum;
}

double MetricsText::Quantile(const std::string& name, double q, const MetricLabels& labels) const {
  std::map<double, double> buckets;  // upper bound -> observations up to it
  for (const MetricSample& sample : Series(name + "_bucket")) {
    if (!Matches(sample, labels)) continue;
    const auto bound = sample.labels.find("le");
    if (bound == sample.labels.end()) continue;
    const absl::StatusOr<double> upper = ParseValue(bound->second);
    if (upper.ok()) buckets[*upper] += sample.value;
  }
  if (buckets.empty() || buckets.rbegin()->second <= 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double wanted = q * buckets.rbegin()->second;
  double lower = 0;
  double below = 0;
  for (const auto& [upper, count] : buckets) {
    if (count >= wanted && count > below) {
      if (std::isinf(upper)) return lower;
      return lower + (upper - lower) * (wanted - below) / (count - below);
    }
    lower = upper;
    below = count;
  }
  return lower;
}

}  // namespace dslide

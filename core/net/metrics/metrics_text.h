// Reads a page in Prometheus' text format: one of ours, from this process or over HTTP.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

struct MetricSample {
  std::map<std::string, std::string> labels;
  double value = 0;
};

// Immutable. Thread safety: const methods are concurrent.
class MetricsText {
 public:
  MetricsText() = default;

  // Comments and exemplars are left out. Errors: InvalidArgument with the number of the line.
  static absl::StatusOr<MetricsText> Parse(absl::string_view text);

  // All series of one name, sorted by their labels; histograms are <name>_bucket, <name>_sum and
  // <name>_count.
  const std::vector<MetricSample>& Series(const std::string& name) const;
  bool Has(const std::string& name) const { return !Series(name).empty(); }

  // Sum over the series that have all of `labels`; 0 when there is none.
  double Sum(const std::string& name, const MetricLabels& labels = {}) const;

  // The value below which the share `q` of a histogram's observations lies, straight between the
  // buckets' bounds; NaN without observations. What lies above the last bound counts as that bound.
  double Quantile(const std::string& name, double q, const MetricLabels& labels = {}) const;

 private:
  std::map<std::string, std::vector<MetricSample>> series_;
};

}  // namespace dslide

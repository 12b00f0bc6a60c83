// Metrics of one service: counters, gauges and histograms by name, shown as a Prometheus page.
//
// The only door to the metrics library. Names are `dslide_<service>_<thing>_<unit>[_total]` in base
// units; labels have few values (a method, a code, a table), never ids of rows or clients.
//
// Thread safety: everything here is safe from any thread. Add* takes a lock, so keep the handles;
// updating a handle is lock-free, except for histograms.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace dslide {

// (name, value) pairs; names [a-z_]+.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// A count that only grows. Handles are copied freely and live as long as their Metrics; one made by
// the default constructor counts nothing.
class Counter {
 public:
  Counter() = default;
  void Increment(double amount = 1.0) const;  // amount >= 0
  double Value() const;

 private:
  friend class Metrics;
  explicit Counter(prometheus::Counter* impl) : impl_(impl) {}
  prometheus::Counter* impl_ = nullptr;
};

// A value that goes up and down.
class Gauge {
 public:
  Gauge() = default;
  void Set(double value) const;
  void Add(double amount) const;
  double Value() const;

 private:
  friend class Metrics;
  explicit Gauge(prometheus::Gauge* impl) : impl_(impl) {}
  prometheus::Gauge* impl_ = nullptr;
};

// A distribution over fixed buckets.
class Histogram {
 public:
  Histogram() = default;
  void Observe(double value) const;

 private:
  friend class Metrics;
  explicit Histogram(prometheus::Histogram* impl) : impl_(impl) {}
  prometheus::Histogram* impl_ = nullptr;
};

// Seconds, 100 us to 10 s, about three per decade.
std::vector<double> LatencyBuckets();
// Counts, 1 to 10^7 in half decades.
std::vector<double> CountBuckets();

class Metrics {
 public:
  // `constant_labels` go on every series, e.g. {{"shard", "2"}} where several services share a
  // page.
  explicit Metrics(MetricLabels constant_labels = {});
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The series of that name and labels; made at 0 when it is new. The help text and the kind of a
  // name are those of its first use; another kind, or a malformed name, is a bug and aborts.
  Counter AddCounter(absl::string_view name, absl::string_view help,
                     const MetricLabels& labels = {});
  Gauge AddGauge(absl::string_view name, absl::string_view help, const MetricLabels& labels = {});
  Histogram AddHistogram(absl::string_view name, absl::string_view help,
                         const MetricLabels& labels = {},
                         const std::vector<double>& buckets = LatencyBuckets());

  // Values that are asked for when the page is made. `read` must be quick, must not throw and may
  // be called from any thread until RemoveCallbacks(owner) or the destructor returns.
  void AddGaugeCallback(const void* owner, absl::string_view name, absl::string_view help,
                        const MetricLabels& labels, std::function<double()> read);
  void AddCounterCallback(const void* owner, absl::string_view name, absl::string_view help,
                          const MetricLabels& labels, std::function<double()> read);
  // Gauges whose labels come and go; each set of labels once.
  using Samples = std::vector<std::pair<MetricLabels, double>>;
  void AddGaugesCallback(const void* owner, absl::string_view name, absl::string_view help,
                         std::function<Samples()> read);
  // Forgets the callbacks of `owner`. When it returns, none of them runs any more.
  void RemoveCallbacks(const void* owner);

  // dslide_build_info and process_* (CPU, memory, files, start time). Once per process and page.
  void AddProcessMetrics();

  // The page in Prometheus' text format.
  std::string Expose() const;

 private:
  friend std::string ExposeAll(absl::Span<const Metrics* const> all);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One page for several services: families of the same name are shown once.
std::string ExposeAll(absl::Span<const Metrics* const> all);

}  // namespace dslide

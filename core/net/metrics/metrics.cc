#include "core/net/metrics/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/version.h"
#include "core/net/metrics/process_stats.h"

namespace dslide {
namespace {

enum class Kind { kCounter, kGauge, kHistogram };

struct Callback {
  const void* owner;
  std::string name;
  Kind kind;
  std::function<Metrics::Samples()> read;
};

// A wrong metric is our own bug: say which one and stop.
[[noreturn]] void Die(absl::string_view name, absl::string_view problem) {
  std::fprintf(stderr, "metric %s: %s\n", std::string(name).c_str(), std::string(problem).c_str());
  std::abort();
}

void CheckName(absl::string_view name, absl::string_view help, Kind kind) {
  if (name.empty() || help.empty()) Die(name, "needs a name and a help text");
  for (const char c : name) {
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_')) {
      Die(name, "names are made of a-z, 0-9 and _");
    }
  }
  if ((kind == Kind::kCounter) != absl::EndsWith(name, "_total")) {
    Die(name, "counters, and only they, end in _total");
  }
}

std::function<Metrics::Samples()> One(MetricLabels labels, std::function<double()> read) {
  return [labels = std::move(labels), read = std::move(read)] {
    return Metrics::Samples{{labels, read()}};
  };
}

prometheus::Labels ToLabels(const MetricLabels& labels) {
  return prometheus::Labels(labels.begin(), labels.end());
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(MetricLabels labels) : constant_labels(std::move(labels)) {}

  struct Family {
    Kind kind;
    std::string help;
    prometheus::Family<prometheus::Counter>* counters = nullptr;
    prometheus::Family<prometheus::Gauge>* gauges = nullptr;
    prometheus::Family<prometheus::Histogram>* histograms = nullptr;
  };

  // The family of `name`, made on first use.
  Family& FamilyOf(absl::string_view name, absl::string_view help, Kind kind)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Adds one callback; its family must not hold ordinary series.
  void AddCallback(Callback callback, absl::string_view help);

  std::vector<prometheus::MetricFamily> Collect() const;

  const MetricLabels constant_labels;
  prometheus::Registry registry{};  // self-synchronised
  mutable absl::Mutex mu;           // held while callbacks run, so that RemoveCallbacks can wait
  std::map<std::string, Family> families ABSL_GUARDED_BY(mu);
  std::vector<Callback> callbacks ABSL_GUARDED_BY(mu);
};

Metrics::Impl::Family& Metrics::Impl::FamilyOf(absl::string_view name, absl::string_view help,
                                               Kind kind) {
  CheckName(name, help, kind);
  const auto [entry, created] =
      families.try_emplace(std::string(name), Family{kind, std::string(help)});
  if (!created && entry->second.kind != kind) Die(name, "was added before as another kind");
  return entry->second;
}

void Metrics::Impl::AddCallback(Callback callback, absl::string_view help) {
  const absl::MutexLock lock(&mu);
  FamilyOf(callback.name, help, callback.kind);
  callbacks.push_back(std::move(callback));
}

std::vector<prometheus::MetricFamily> Metrics::Impl::Collect() const {
  std::vector<prometheus::MetricFamily> collected = registry.Collect();
  const absl::MutexLock lock(&mu);
  std::map<std::string, size_t> position;  // of the callbacks' families in `collected`
  for (const Callback& callback : callbacks) {
    const auto [entry, created] = position.try_emplace(callback.name, collected.size());
    if (created) {
      prometheus::MetricFamily family;
      family.name = callback.name;
      family.help = families.at(callback.name).help;
      family.type = callback.kind == Kind::kCounter ? prometheus::MetricType::Counter
                                                    : prometheus::MetricType::Gauge;
      collected.push_back(std::move(family));
    }
    for (const auto& [labels, value] : callback.read()) {
      prometheus::ClientMetric metric;
      for (const MetricLabels* all : {&labels, &constant_labels}) {
        for (const auto& [name, text] : *all) metric.label.push_back({name, text});
      }
      (callback.kind == Kind::kCounter ? metric.counter.value : metric.gauge.value) = value;
      collected[entry->second].metric.push_back(std::move(metric));
    }
  }
  return collected;
}

void Counter::Increment(double amount) const {
  if (impl_ != nullptr) impl_->Increment(amount);
}
double Counter::Value() const { return impl_ == nullptr ? 0.0 : impl_->Value(); }

void Gauge::Set(double value) const {
  if (impl_ != nullptr) impl_->Set(value);
}
void Gauge::Add(double amount) const {
  if (impl_ != nullptr) impl_->Increment(amount);
}
double Gauge::Value() const { return impl_ == nullptr ? 0.0 : impl_->Value(); }

void Histogram::Observe(double value) const {
  if (impl_ != nullptr) impl_->Observe(value);
}

std::vector<double> LatencyBuckets() {
  return {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
          5e-2, 0.1,    0.25, 0.5,  1.0,    2.5,  5.0,  10.0};
}

std::vector<double> CountBuckets() {
  return {1, 3, 10, 30, 100, 300, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7};
}

Metrics::Metrics(MetricLabels constant_labels)
    : impl_(std::make_unique<Impl>(std::move(constant_labels))) {}

Metrics::~Metrics() = default;

Counter Metrics::AddCounter(absl::string_view name, absl::string_view help,
                            const MetricLabels& labels) {
  const absl::MutexLock lock(&impl_->mu);
  Impl::Family& family = impl_->FamilyOf(name, help, Kind::kCounter);
  if (family.counters == nullptr) {
    family.counters = &prometheus::BuildCounter()
                           .Name(std::string(name))
                           .Help(std::string(help))
                           .Labels(ToLabels(impl_->constant_labels))
                           .Register(impl_->registry);
  }
  return Counter(&family.counters->Add(ToLabels(labels)));
}

Gauge Metrics::AddGauge(absl::string_view name, absl::string_view help,
                        const MetricLabels& labels) {
  const absl::MutexLock lock(&impl_->mu);
  Impl::Family& family = impl_->FamilyOf(name, help, Kind::kGauge);
  if (family.gauges == nullptr) {
    family.gauges = &prometheus::BuildGauge()
                         .Name(std::string(name))
                         .Help(std::string(help))
                         .Labels(ToLabels(impl_->constant_labels))
                         .Register(impl_->registry);
  }
  return Gauge(&family.gauges->Add(ToLabels(labels)));
}

Histogram Metrics::AddHistogram(absl::string_view name, absl::string_view help,
                                const MetricLabels& labels, const std::vector<double>& buckets) {
  const absl::MutexLock lock(&impl_->mu);
  Impl::Family& family = impl_->FamilyOf(name, help, Kind::kHistogram);
  if (family.histograms == nullptr) {
    family.histograms = &prometheus::BuildHistogram()
                             .Name(std::string(name))
                             .Help(std::string(help))
                             .Labels(ToLabels(impl_->constant_labels))
                             .Register(impl_->registry);
  }
  return Histogram(&family.histograms->Add(ToLabels(labels), buckets));
}

void Metrics::AddGaugeCallback(const void* owner, absl::string_view name, absl::string_view help,
                               const MetricLabels& labels, std::function<double()> read) {
  AddGaugesCallback(owner, name, help, One(labels, std::move(read)));
}

void Metrics::AddGaugesCallback(const void* owner, absl::string_view name, absl::string_view help,
                                std::function<Samples()> read) {
  impl_->AddCallback({owner, std::string(name), Kind::kGauge, std::move(read)}, help);
}

void Metrics::AddCounterCallback(const void* owner, absl::string_view name, absl::string_view help,
                                 const MetricLabels& labels, std::function<double()> read) {
  impl_->AddCallback({owner, std::string(name), Kind::kCounter, One(labels, std::move(read))},
                     help);
}

void Metrics::RemoveCallbacks(const void* owner) {
  const absl::MutexLock lock(&impl_->mu);
  std::erase_if(impl_->callbacks,
                [owner](const Callback& callback) { return callback.owner == owner; });
}

void Metrics::AddProcessMetrics() {
  AddGauge("dslide_build_info", "Which build this is; always 1.",
           {{"version", Version()}, {"revision", Revision()}, {"compiler", Compiler()}})
      .Set(1);
  AddCounterCallback(this, "process_cpu_seconds_total", "User and system CPU time spent.", {},
                     ProcessCpuSeconds);
  AddGaugeCallback(this, "process_resident_memory_bytes", "Resident memory.", {},
                   ProcessResidentBytes);
  AddGaugeCallback(this, "process_virtual_memory_bytes", "Virtual memory.", {},
                   ProcessVirtualBytes);
  AddGaugeCallback(this, "process_open_fds", "Open file descriptors.", {}, ProcessOpenFiles);
  AddGaugeCallback(this, "process_max_fds", "Limit of open file descriptors.", {}, ProcessMaxFiles);
  AddGaugeCallback(this, "process_start_time_seconds", "Start of the process, Unix time.", {},
                   ProcessStartTimeSeconds);
}

std::string Metrics::Expose() const {
  const Metrics* const self = this;
  return ExposeAll(absl::MakeConstSpan(&self, 1));
}

std::string ExposeAll(absl::Span<const Metrics* const> all) {
  std::map<std::string, prometheus::MetricFamily> merged;
  for (const Metrics* metrics : all) {
    for (prometheus::MetricFamily& family : metrics->impl_->Collect()) {
      const std::string name = family.name;
      const auto [entry, created] = merged.try_emplace(name, std::move(family));
      if (created) continue;
      for (prometheus::ClientMetric& metric : family.metric) {
        entry->second.metric.push_back(std::move(metric));
      }
    }
  }
  std::vector<prometheus::MetricFamily> families;
  families.reserve(merged.size());
  for (auto& [name, family] : merged) {
    if (!family.metric.empty()) families.push_back(std::move(family));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace dslide

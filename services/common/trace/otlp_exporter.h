// Sends ended spans to a collector, by the OpenTelemetry protocol: JSON over HTTP.
//
// Source: OpenTelemetry Protocol Specification 1.x (opentelemetry.io/docs/specs/otlp), "OTLP/HTTP".

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/common/trace/span.h"

namespace dslide {

struct TracingSettings {
  // http://HOST:PORT or https://…, as of a collector's OTLP receiver; its path is /v1/traces below
  // this. Empty: nothing is traced.
  std::string endpoint;
  double sample = 0;  // of the traces that begin here; [0, 1]
};

// Errors: InvalidArgument, naming the value.
absl::Status CheckTracingSettings(const TracingSettings& settings);

// A request's body: spans of one process, which is called `service`. Text that is not UTF-8 has
// replacement characters.
std::string EncodeSpans(const std::string& service, const std::vector<SpanRecord>& spans);

// The process's sink while it lives. Spans go out after a moment, several at a time. What a
// collector does not take, and what comes faster than it takes, is lost: work never waits for it.
// A line in the log says so, once until it takes spans again.
//
// Thread safety: safe from any thread; made and destroyed while no other thread has spans.
class OtlpExporter final : public SpanSink {
 public:
  // Null without an endpoint. `service`: "dslide-shard". Errors: as CheckTracingSettings().
  static absl::StatusOr<std::unique_ptr<OtlpExporter>> Start(const TracingSettings& settings,
                                                             const std::string& service);
  // Sends what is left, for at most two seconds.
  ~OtlpExporter() override;

  void Record(SpanRecord record) override;
  double sample() const override { return settings_.sample; }

 private:
  OtlpExporter(const TracingSettings& settings, const std::string& service);
  void Run();
  // Whether the collector has them.
  absl::Status Send(const std::vector<SpanRecord>& spans) const;
  void Report(const absl::Status& sent, int64_t lost);

  const TracingSettings settings_;
  const std::string service_;
  bool failing_ = false;  // of the thread
  absl::Mutex mu_;
  std::vector<SpanRecord> waiting_ ABSL_GUARDED_BY(mu_);
  int64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses everything above
};

}  // namespace dslide

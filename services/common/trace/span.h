// What one call or command did in a trace, and for how long.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/net/trace/trace_context.h"

namespace dslide {

// Numbers of the OpenTelemetry protocol.
enum class SpanKind { kInternal = 1, kServer = 2 };

struct SpanRecord {
  TraceContext context;
  std::array<uint8_t, 8> parent = {};  // zeroes: none
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  absl::Time start;
  absl::Time end;
  std::vector<std::pair<std::string, std::string>> attributes;
  absl::Status status;
};

// Where ended spans go.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Must not block. From any thread.
  virtual void Record(SpanRecord record) = 0;
  // The share of traces that are kept, of those that begin here: [0, 1].
  virtual double sample() const = 0;
};

// Of the process; null: no span is recorded, and what callers send is handed on as it is. Before
// threads start and after they have ended; `sink` outlives its use.
void SetSpanSink(SpanSink* sink);

// Something that has begun and ends once. Moves; not for two threads at a time.
class Span {
 public:
  // Below `parent`, and kept if its trace is. Nothing where that is not valid(): heartbeats and
  // callers without a trace leave none.
  static Span Follow(absl::string_view name, SpanKind kind, const TraceContext& parent);
  // The same, but where `parent` is not valid() a trace begins, of which the sink's share is kept.
  static Span Begin(absl::string_view name, SpanKind kind, const TraceContext& parent);
  Span() = default;
  Span(Span&&) = default;
  Span& operator=(Span&&) = default;
  // Ends as one that was given up.
  ~Span();

  // What calls below it carry.
  const TraceContext& context() const { return context_; }
  // Costs nothing unless the span is kept. `value` may be a peer's.
  void SetAttribute(absl::string_view key, absl::string_view value);
  // Repeated calls do nothing.
  void End(const absl::Status& status);

 private:
  explicit Span(const TraceContext& context) : context_(context) {}
  void Keep(absl::string_view name, SpanKind kind, const TraceContext& parent);

  TraceContext context_;
  std::unique_ptr<SpanRecord> record_;  // null: not kept, or ended
};

}  // namespace dslide

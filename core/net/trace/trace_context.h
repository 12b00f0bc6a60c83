// The place of a call in a trace, as its caller sends it: the W3C's traceparent.
//
// Source: W3C Recommendation "Trace Context", level 1 (www.w3.org/TR/trace-context-1).

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dslide {

// The metadata key, the header and, in capitals, the variable that carry it.
inline constexpr char kTraceparentKey[] = "traceparent";

struct TraceContext {
  std::array<uint8_t, 16> trace_id = {};
  std::array<uint8_t, 8> span_id = {};
  bool sampled = false;  // whether its spans are to be kept

  // Zeroes stand for none.
  bool valid() const;
  // "00-<trace id>-<span id>-01". Requires valid().
  std::string ToTraceparent() const;
};

// Not valid() when the text is none, as the recommendation asks for: the caller's is left out.
TraceContext ParseTraceparent(absl::string_view text);

// What calls of this thread carry: that of the innermost ScopedTrace, else that of the process.
const TraceContext& CurrentTrace();

// Of threads without a ScopedTrace. Before threads start.
void SetProcessTrace(const TraceContext& context);

// Makes `context` the thread's own for its lifetime, one that is not valid(), too. Not to be moved
// between threads.
class ScopedTrace {
 public:
  explicit ScopedTrace(const TraceContext& context);
  ~ScopedTrace();
  ScopedTrace(const ScopedTrace&) = delete;
  ScopedTrace& operator=(const ScopedTrace&) = delete;

 private:
  const TraceContext context_;
  const TraceContext* const outer_;
};

}  // namespace dslide

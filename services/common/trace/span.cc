#include "services/common/trace/span.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#include "absl/time/clock.h"
#include "core/base/counter_rng.h"
#include "core/base/random_id.h"

namespace dslide {
namespace {

std::atomic<SpanSink*> process_sink = nullptr;

// Differs from those of other processes; asking the operating system each time would cost more than
// a small call.
uint64_t NewNumber() {
  static const uint64_t key = [] {
    uint64_t number = 0;
    const auto id = RandomId();
    std::memcpy(&number, id.data(), sizeof(number));
    return number;
  }();
  static std::atomic<uint64_t> next{0};
  return DeriveKey(key, next.fetch_add(1, std::memory_order_relaxed)) | 1;  // never none
}

bool IsSampled(uint64_t number, double share) {
  return static_cast<double>(number >> 11) < share * 0x1p53;
}

void SetNumber(TraceContext& span) {
  const uint64_t number = NewNumber();
  std::memcpy(span.span_id.data(), &number, sizeof(number));
}

}  // namespace

void SetSpanSink(SpanSink* sink) { process_sink = sink; }

Span Span::Follow(absl::string_view name, SpanKind kind, const TraceContext& parent) {
  Span span(parent);
  if (process_sink != nullptr && parent.valid() && parent.sampled) span.Keep(name, kind, parent);
  return span;
}

Span Span::Begin(absl::string_view name, SpanKind kind, const TraceContext& parent) {
  const SpanSink* const sink = process_sink;
  if (sink == nullptr || parent.valid()) return Follow(name, kind, parent);
  TraceContext begun;
  const uint64_t numbers[2] = {NewNumber(), NewNumber()};
  static_assert(sizeof(numbers) == sizeof(begun.trace_id));
  std::memcpy(begun.trace_id.data(), numbers, sizeof(numbers));
  begun.sampled = IsSampled(numbers[1], sink->sample());
  Span span(begun);
  SetNumber(span.context_);  // callees learn also that the trace is not kept
  if (begun.sampled) span.Keep(name, kind, parent);
  return span;
}

void Span::Keep(absl::string_view name, SpanKind kind, const TraceContext& parent) {
  SetNumber(context_);
  record_ = std::make_unique<SpanRecord>();
  record_->context = context_;
  record_->parent = parent.span_id;
  record_->name = std::string(name);
  record_->kind = kind;
  record_->start = absl::Now();
}

Span::~Span() { End(absl::CancelledError("given up")); }

void Span::SetAttribute(absl::string_view key, absl::string_view value) {
  if (record_ != nullptr) record_->attributes.emplace_back(key, value);
}

void Span::End(const absl::Status& status) {
  if (record_ == nullptr) return;
  record_->end = absl::Now();
  record_->status = status;
  SpanSink* const sink = process_sink;
  if (sink != nullptr) sink->Record(std::move(*record_));
  record_.reset();
}

}  // namespace dslide

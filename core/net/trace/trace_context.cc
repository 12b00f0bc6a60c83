#include "core/net/trace/trace_context.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

// Version, trace id, span id, flags; later versions may go on behind another dash.
constexpr size_t kTraceparentBytes = 55;
constexpr uint8_t kSampled = 1;

thread_local const TraceContext* innermost = nullptr;
TraceContext of_process;

template <size_t kBytes>
std::string ToHex(const std::array<uint8_t, kBytes>& bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), kBytes));
}

bool IsLowerHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isxdigit(c) && !absl::ascii_isupper(c);
  });
}

template <size_t kBytes>
void FromHex(absl::string_view text, std::array<uint8_t, kBytes>& bytes) {
  const std::string read = absl::HexStringToBytes(text);
  std::copy(read.begin(), read.end(), bytes.begin());
}

template <size_t kBytes>
bool HasAny(const std::array<uint8_t, kBytes>& bytes) {
  return std::any_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte != 0; });
}

}  // namespace

bool TraceContext::valid() const { return HasAny(trace_id) && HasAny(span_id); }

std::string TraceContext::ToTraceparent() const {
  return absl::StrCat("00-", ToHex(trace_id), "-", ToHex(span_id), sampled ? "-01" : "-00");
}

TraceContext ParseTraceparent(absl::string_view text) {
  const TraceContext none;
  if (text.size() < kTraceparentBytes) return none;
  const absl::string_view version = text.substr(0, 2);
  const absl::string_view rest = text.substr(kTraceparentBytes);
  const bool known = version == "00";
  if (version == "ff" || (known && !rest.empty()) || (!rest.empty() && rest[0] != '-')) return none;
  const absl::string_view trace_id = text.substr(3, 32);
  const absl::string_view span_id = text.substr(36, 16);
  const absl::string_view flags = text.substr(53, 2);
  if (text[2] != '-' || text[35] != '-' || text[52] != '-' || !IsLowerHex(version) ||
      !IsLowerHex(trace_id) || !IsLowerHex(span_id) || !IsLowerHex(flags)) {
    return none;
  }
  TraceContext context;
  FromHex(trace_id, context.trace_id);
  FromHex(span_id, context.span_id);
  std::array<uint8_t, 1> bits = {};
  FromHex(flags, bits);
  context.sampled = (bits[0] & kSampled) != 0;
  return context.valid() ? context : none;
}

const TraceContext& CurrentTrace() { return innermost != nullptr ? *innermost : of_process; }

void SetProcessTrace(const TraceContext& context) { of_process = context; }

ScopedTrace::ScopedTrace(const TraceContext& context) : context_(context), outer_(innermost) {
  innermost = &context_;
}

ScopedTrace::~ScopedTrace() { innermost = outer_; }

}  // namespace dslide

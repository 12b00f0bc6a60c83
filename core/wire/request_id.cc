#include "core/wire/request_id.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/random_id.h"

namespace dslide::wire {
namespace {

constexpr size_t kMaxRequestIdBytes = 64;

uint64_t ProcessKey() {
  uint64_t key = 0;
  const auto id = RandomId();
  std::memcpy(&key, id.data(), sizeof(key));
  return key;
}

// Of the process: two clients in it must not use the same ids, and asking the operating system for
// each call costs more than the call's own work on small ones.
std::string NewRequestId() {
  static const uint64_t key = ProcessKey();
  static std::atomic<uint64_t> next{0};
  const uint64_t count = next.fetch_add(1, std::memory_order_relaxed);
  return absl::StrCat(absl::Hex(DeriveKey(key, count), absl::kZeroPad16));
}

}  // namespace

bool IsRequestId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) { return absl::ascii_isgraph(c); });
}

std::string RequestIdOrNew(absl::string_view id) {
  return IsRequestId(id) ? std::string(id) : NewRequestId();
}

absl::Status NameRequest(const absl::Status& error, absl::string_view id) {
  absl::Status named(error.code(), absl::StrCat(error.message(), " (request ", id, ")"));
  error.ForEachPayload([&named](absl::string_view type, const absl::Cord& payload) {
    named.SetPayload(type, payload);
  });
  return named;
}

}  // namespace dslide::wire

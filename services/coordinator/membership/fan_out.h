// The same call to many shards at once.

#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "core/net/trace/trace_context.h"
#include "services/coordinator/membership/membership.h"

namespace dslide::coordinator {

inline constexpr size_t kFanOutThreads = 32;

// Calls `call(i)` for i in [0, count) on up to `most_threads` threads and waits for all; with one,
// in this order on the caller's.
template <typename Call>
void FanOut(size_t count, const Call& call, size_t most_threads = kFanOutThreads) {
  std::atomic<size_t> next = 0;
  const TraceContext trace = CurrentTrace();
  const auto work = [&] {
    const ScopedTrace below(trace);
    for (size_t i = next++; i < count; i = next++) call(i);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(count, most_threads); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

// One error for what shards answered: OK when all did. The code and reason are those of the gravest
// failure (one that a repetition cannot heal, if there is one); the message begins with `what` and
// names every shard that failed (at most 8), each with its address.
absl::Status CombineFailures(const std::string& what, const std::vector<ShardInfo>& shards,
                             const std::vector<absl::Status>& results);

}  // namespace dslide::coordinator

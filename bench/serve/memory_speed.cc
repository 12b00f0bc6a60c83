#include "bench/serve/memory_speed.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/prefetch.h"
#include "core/engine/math/kernels.h"

namespace dslide::bench {
namespace {

constexpr int64_t kFloats = int64_t{1} << 27;  // 512 MiB: beyond any last-level cache
constexpr int64_t kRow = 128;
constexpr int kPasses = 8;
constexpr int64_t kRowsAhead = 8;

}  // namespace

double MemoryBytesPerSecond() {
  const std::vector<float> buffer(kFloats, 1.0f);
  const std::vector<float> query(kRow, 0.5f);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const absl::Time start = absl::Now();
    float sum = 0;
    // Which of the two is faster depends on the processor: to ask for rows ahead, or not to.
    const int64_t ahead = pass % 2 * kRowsAhead * kRow;
    for (int64_t i = 0; i < kFloats; i += kRow) {
      if (ahead > 0 && i + ahead < kFloats) {
        PrefetchLines(buffer.data() + i + ahead, kRow * int64_t{sizeof(float)});
      }
      sum += Dot(buffer.data() + i, query.data(), kRow);
    }
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    // The sum is known, so that no compiler leaves it out.
    if (sum > 0) best = std::max(best, sizeof(float) * static_cast<double>(kFloats) / seconds);
  }
  return best;
}

}  // namespace dslide::bench

#include "bench/rpc/row_baseline.h"

#include <algorithm>
#include <cstring>

#include "bench/rpc/random_rows.h"
#include "bench/rpc/stream_baseline.h"
#include "core/base/prefetch.h"
#include "core/engine/math/kernels.h"

namespace dslide::bench {
namespace {

constexpr int64_t kLineFloats = 16;
constexpr int64_t kRowRequestsPerSize = 4;
constexpr int64_t kRowsAhead = 8;

}  // namespace

RowBaseline::RowBaseline(const Options& options)
    : dim_(options.dim),
      record_floats_((options.dim + kLineFloats - 1) / kLineFloats * kLineFloats + kLineFloats),
      table_(static_cast<size_t>(options.table_rows * record_floats_)),
      lanes_(static_cast<size_t>(options.lanes)) {
  for (int number = 0; number < options.lanes; ++number) {
    Lane& lane = lanes_[number];
    for (const int64_t rows : options.sizes) {
      for (int64_t i = 0; i < kRowRequestsPerSize; ++i) {
        const auto seed = static_cast<uint64_t>(number * kRowRequestsPerSize + i);
        lane.requests[rows].push_back(RandomRows(rows, options.table_rows, seed));
      }
    }
    const int64_t message = kBaselineChunkBytes / static_cast<int64_t>(sizeof(float));
    lane.message.resize(static_cast<size_t>(std::max(message, dim_)));
  }
}

template <typename Visit>
void RowBaseline::ForEachRow(Lane& lane, int64_t rows, const Visit& visit) {
  const std::vector<std::vector<RowId>>& requests = lane.requests[rows];
  const std::vector<RowId>& wanted = requests[lane.next++ % requests.size()];
  const auto in_message = static_cast<int64_t>(lane.message.size()) / dim_;
  for (int64_t i = 0; i < rows; ++i) {
    if (i + kRowsAhead < rows) {
      // Into the second level, as the shard does it.
      const float* const ahead = table_.data() + wanted[i + kRowsAhead].value() * record_floats_;
      PrefetchLines(ahead, dim_ * static_cast<int64_t>(sizeof(float)));
    }
    visit(table_.data() + wanted[i].value() * record_floats_,
          lane.message.data() + i % in_message * dim_);
  }
}

absl::Status RowBaseline::Copy(int lane, int64_t rows) {
  ForEachRow(lanes_[lane], rows, [this](const float* record, float* message) {
    std::memcpy(message, record, static_cast<size_t>(dim_) * sizeof(float));
  });
  return absl::OkStatus();
}

absl::Status RowBaseline::Add(int lane, int64_t rows) {
  ForEachRow(lanes_[lane], rows,
             [this](float* record, const float* message) { AddTo(message, record, dim_); });
  return absl::OkStatus();
}

}  // namespace dslide::bench

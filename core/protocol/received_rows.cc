#include "core/protocol/received_rows.h"

#include <algorithm>
#include <cstring>

#include "core/base/bfloat16.h"
#include "core/base/prefetch.h"
#include "core/engine/math/kernels.h"

namespace dslide {

void WidenBFloat16(const char* in, int64_t n, float* out) {
  constexpr int64_t kBlock = 512;
  BFloat16 block[kBlock];
  for (int64_t done = 0; done < n; done += kBlock) {
    const int64_t count = std::min(kBlock, n - done);
    std::memcpy(block, in + done * static_cast<int64_t>(sizeof(BFloat16)),
                static_cast<size_t>(count) * sizeof(BFloat16));
    BFloat16ToFloats(block, count, out + done);
  }
}

const char* ReceivedRows::Row(int64_t i, float* scratch) const {
  if (types[i] == ActivationType::kF32) return values[i];
  WidenBFloat16(values[i], dim, scratch);
  return reinterpret_cast<const char*>(scratch);
}

void ReceivedRows::Prefetch(int64_t i) const {
  if (i >= static_cast<int64_t>(values.size())) return;
  const auto element =
      static_cast<int64_t>(types[i] == ActivationType::kBf16 ? sizeof(BFloat16) : sizeof(float));
  PrefetchLines(values[i], dim * element);
}

RowBlock ReceivedRows::ToBlock() const {
  RowBlock block;
  block.rows = rows;
  block.dim = dim;
  block.biases = biases;
  block.values.resize(rows.size() * static_cast<size_t>(dim));
  for (size_t i = 0; i < rows.size(); ++i) {
    float* const to = block.values.data() + i * static_cast<size_t>(dim);
    const char* const from = Row(static_cast<int64_t>(i), to);
    if (from != reinterpret_cast<const char*>(to)) {
      std::memcpy(to, from, static_cast<size_t>(dim) * sizeof(float));
    }
  }
  return block;
}

}  // namespace dslide

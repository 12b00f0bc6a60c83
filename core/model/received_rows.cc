#include "core/model/received_rows.h"

#include <algorithm>
#include <cstring>

#include "core/base/bfloat16.h"
#include "core/math/kernels.h"

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

const float* ReceivedRows::Row(int64_t i, float* scratch) const {
  const char* const from = values[i];
  if (types[i] == ActivationType::kBf16) {
    WidenBFloat16(from, dim, scratch);
    return scratch;
  }
  if (reinterpret_cast<uintptr_t>(from) % alignof(float) == 0) {
    return reinterpret_cast<const float*>(from);
  }
  std::memcpy(scratch, from, static_cast<size_t>(dim) * sizeof(float));
  return scratch;
}

RowBlock ReceivedRows::ToBlock() const {
  RowBlock block;
  block.rows = rows;
  block.dim = dim;
  block.biases = biases;
  block.values.resize(rows.size() * static_cast<size_t>(dim));
  for (size_t i = 0; i < rows.size(); ++i) {
    float* const to = block.values.data() + i * static_cast<size_t>(dim);
    const float* const from = Row(static_cast<int64_t>(i), to);
    if (from != to) std::copy_n(from, dim, to);
  }
  return block;
}

}  // namespace dslide

// A small working array of floats on a 64-byte boundary.

#pragma once

#include <cstdint>
#include <vector>

namespace dslide {

// Grows and keeps its memory. Not thread-safe.
class AlignedFloats {
 public:
  // Makes room for `count` floats; contents are kept. New ones are 0.
  void Resize(int64_t count) { lines_.resize((count + kLineFloats - 1) / kLineFloats); }
  float* data() { return lines_.data()->values; }

 private:
  static constexpr int64_t kLineFloats = 16;
  struct alignas(64) Line {
    float values[kLineFloats] = {};
  };
  std::vector<Line> lines_;
};

}  // namespace dslide

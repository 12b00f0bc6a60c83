// What a tensor of a file is: its name, type and shape.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dslide {

enum class TensorType { kU8, kU32, kI64, kBf16, kF32 };

inline int64_t BytesOf(TensorType type) {
  switch (type) {
    case TensorType::kU8:
      return 1;
    case TensorType::kBf16:
      return 2;
    case TensorType::kU32:
    case TensorType::kF32:
      return 4;
    case TensorType::kI64:
      return 8;
  }
  return 0;
}

// Data only. Numbers are little-endian, row-major, without gaps.
struct TensorInfo {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;

  int64_t elements() const {
    int64_t product = 1;
    for (const int64_t side : shape) product *= side;
    return product;
  }
  int64_t bytes() const { return elements() * BytesOf(type); }
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

}  // namespace dslide

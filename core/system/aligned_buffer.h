// A zero-filled array on 64-byte boundaries, in huge pages where the kernel grants them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace dslide {

// Owns `size()` floats. Movable, not copyable. Thread safety: as a plain array.
//
// Memory comes from an anonymous mapping, so untouched pages cost nothing and all start as 0.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

  // Errors: ResourceExhausted, with the size, when the system has not that much memory to map.
  static absl::StatusOr<AlignedBuffer> Create(int64_t num_floats);

  float* data() { return data_; }
  const float* data() const { return data_; }
  int64_t size() const { return size_; }
  // Bytes [begin, end) become 0. Pages that lie in them as wholes go back to the system until they
  // are written again.
  void Release(int64_t begin, int64_t end);
  absl::Span<float> span() { return {data_, static_cast<size_t>(size_)}; }
  absl::Span<const float> span() const { return {data_, static_cast<size_t>(size_)}; }

 private:
  float* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace dslide

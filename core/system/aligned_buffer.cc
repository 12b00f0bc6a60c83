#include "core/system/aligned_buffer.h"

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/system/huge_pages.h"

namespace dslide {

AlignedBuffer::~AlignedBuffer() { Unmap(data_, static_cast<size_t>(size_) * sizeof(float)); }

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

absl::StatusOr<AlignedBuffer> AlignedBuffer::Create(int64_t num_floats) {
  AlignedBuffer buffer;
  if (num_floats <= 0) return buffer;
  const size_t bytes = static_cast<size_t>(num_floats) * sizeof(float);
  void* const memory = MapZeros(bytes);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes of memory: ", std::strerror(errno),
                     "; use fewer rows, a narrower dim or more shards"));
  }
  buffer.data_ = static_cast<float*>(memory);
  buffer.size_ = num_floats;
  return buffer;
}

void AlignedBuffer::Release(int64_t begin, int64_t end) {
  ReleasePages(reinterpret_cast<char*>(data_) + begin, static_cast<size_t>(end - begin));
}

}  // namespace dslide

#include "core/base/aligned_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kPageBytes = 4096;

}  // namespace

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

absl::StatusOr<AlignedBuffer> AlignedBuffer::Create(int64_t num_floats) {
  AlignedBuffer buffer;
  if (num_floats <= 0) return buffer;
  const size_t wanted = static_cast<size_t>(num_floats) * sizeof(float);
  const size_t unit = wanted >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  const size_t bytes = (wanted + unit - 1) / unit * unit;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes of memory: ", std::strerror(errno),
                     "; use fewer rows, a narrower dim or more shards"));
  }
  if (bytes >= kHugePageBytes)
    madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: failure is harmless
  buffer.data_ = static_cast<float*>(memory);
  buffer.size_ = num_floats;
  buffer.mapped_bytes_ = bytes;
  return buffer;
}

}  // namespace dslide

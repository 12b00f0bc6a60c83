#include "core/system/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

namespace dslide {
namespace {

constexpr size_t kSmallPageBytes = 4096;

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

void* Map(size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

size_t MappedBytes(size_t bytes) {
  return RoundUp(bytes, bytes >= kHugePageBytes / 2 ? kHugePageBytes : kSmallPageBytes);
}

void* MapZeros(size_t bytes) {
  const size_t size = MappedBytes(bytes);
  if (size < kHugePageBytes) return Map(size);
  // One page more, of which the ends that do not belong to a huge page are given back.
  char* const memory = static_cast<char*>(Map(size + kHugePageBytes));
  if (memory == nullptr) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const size_t before = RoundUp(address, kHugePageBytes) - address;
  if (before > 0) munmap(memory, before);
  munmap(memory + before + size, kHugePageBytes - before);
  madvise(memory + before, size, MADV_HUGEPAGE);  // a hint: failure is harmless
  return memory + before;
}

void Unmap(void* memory, size_t bytes) {
  if (memory != nullptr) munmap(memory, MappedBytes(bytes));
}

void ReleasePages(char* memory, size_t bytes) {
  char* const end = memory + bytes;
  char* const first =
      reinterpret_cast<char*>(RoundUp(reinterpret_cast<uintptr_t>(memory), kSmallPageBytes));
  char* const last = end - reinterpret_cast<uintptr_t>(end) % kSmallPageBytes;
  if (first >= last || madvise(first, static_cast<size_t>(last - first), MADV_DONTNEED) != 0) {
    std::memset(memory, 0, bytes);
    return;
  }
  std::memset(memory, 0, static_cast<size_t>(first - memory));
  std::memset(last, 0, static_cast<size_t>(end - last));
}

}  // namespace dslide

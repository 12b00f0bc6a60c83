// Large arrays in huge pages: what is read at random from many small pages waits for their
// translations besides its own bytes.

#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <vector>

namespace dslide {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// What MapZeros(bytes) takes: whole huge pages from half of one on, small pages below that.
size_t MappedBytes(size_t bytes);

// Zeros that cost nothing until they are touched, at a multiple of 2 MiB where they are huge; null
// when the system has not that much memory to map. Whether huge pages are granted is up to the
// kernel (/sys/kernel/mm/transparent_hugepage/enabled: "always" or "madvise").
void* MapZeros(size_t bytes);
// Gives back what MapZeros(bytes) returned; null is fine.
void Unmap(void* memory, size_t bytes);
// Zeros a part of it. Its whole small pages go back to the system until they are touched again.
void ReleasePages(char* memory, size_t bytes);

// For standard containers. Arrays of less than half a huge page come from the heap.
// Errors: std::bad_alloc, as of the standard's own.
template <typename T>
class HugePageAllocator {
 public:
  using value_type = T;
  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t count) {
    if (count > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = count * sizeof(T);
    if (!IsLarge(bytes)) return static_cast<T*>(::operator new(bytes));
    void* const memory = MapZeros(bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    const size_t bytes = count * sizeof(T);
    if (IsLarge(bytes)) {
      Unmap(memory, bytes);
    } else {
      ::operator delete(memory);
    }
  }
  bool operator==(const HugePageAllocator&) const = default;

 private:
  static bool IsLarge(size_t bytes) { return bytes >= kHugePageBytes / 2; }
};

template <typename T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace dslide

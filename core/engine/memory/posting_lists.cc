#include "core/engine/memory/posting_lists.h"

#include <algorithm>
#include <utility>

namespace dslide {
namespace {

bool Before(Posting a, Posting b) {
  const float left = ToFloat(a.value);
  const float right = ToFloat(b.value);
  return left != right ? left > right : a.place < b.place;
}

// An allocation of n postings takes 4 n + 8 bytes, rounded up to 16: room for 4 i + 2 of them
// wastes nothing. Growth by a quarter, and by one at least, leaves an eighth unused, on average.
uint32_t GrownCapacity(uint32_t size) { return (size + size / 4 + 2) / 4 * 4 + 2; }

int64_t AllocatedBytes(uint32_t capacity) { return 4 * int64_t{capacity} + 8; }

}  // namespace

void PostingLists::Insert(RowId feature, Posting posting) {
  if (feature.value() >= lists_.size()) lists_.resize(size_t{feature.value()} + 1);
  List& list = lists_[feature.value()];
  Posting* const begin = list.postings.get();
  Posting* const end = begin + list.size;
  Posting* const place = std::lower_bound(begin, end, posting, Before);
  if (list.size < list.capacity) {
    std::copy_backward(place, end, end + 1);
    *place = posting;
  } else {
    const uint32_t capacity = GrownCapacity(list.size);
    auto grown = std::make_unique_for_overwrite<Posting[]>(capacity);
    Posting* const gap = std::copy(begin, place, grown.get());
    *gap = posting;
    std::copy(place, end, gap + 1);
    Replace(list, std::move(grown), capacity);
  }
  ++list.size;
}

void PostingLists::Remove(RowId feature, Posting posting) {
  List& list = lists_[feature.value()];
  Posting* const end = list.postings.get() + list.size;
  Posting* const place = std::lower_bound(list.postings.get(), end, posting, Before);
  std::copy(place + 1, end, place);
  --list.size;
  if (list.size == 0) return Replace(list, nullptr, 0);
  // A stream leaves features behind that were frequent once.
  if (list.capacity <= 4 * list.size + 2) return;
  const uint32_t capacity = GrownCapacity(list.size);
  auto shrunk = std::make_unique_for_overwrite<Posting[]>(capacity);
  std::copy(list.postings.get(), list.postings.get() + list.size, shrunk.get());
  Replace(list, std::move(shrunk), capacity);
}

void PostingLists::Replace(List& list, std::unique_ptr<Posting[]> postings, uint32_t capacity) {
  if (capacity > 0) allocated_bytes_ += AllocatedBytes(capacity);
  if (list.capacity > 0) allocated_bytes_ -= AllocatedBytes(list.capacity);
  list.postings = std::move(postings);
  list.capacity = capacity;
}

int64_t PostingLists::memory_bytes() const {
  return static_cast<int64_t>(lists_.capacity() * sizeof(List)) + allocated_bytes_;
}

}  // namespace dslide

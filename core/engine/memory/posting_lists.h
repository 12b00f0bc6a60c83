// The postings of one segment of an index: for each feature the points that have it, the largest
// value first.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "core/base/bfloat16.h"
#include "core/base/ids.h"
#include "core/base/prefetch.h"

namespace dslide {

// A point of the segment, by its place there, and its value. Two bytes each: what a search reads
// most of is as short as it can be.
struct Posting {
  uint16_t place;
  BFloat16 value;
};

// Thread safety: const functions are concurrent with each other; the caller excludes the rest.
class PostingLists {
 public:
  // The posting is not there yet; its value is finite and not 0. Cost: a binary search and the move
  // of the list's smaller values.
  void Insert(RowId feature, Posting posting);
  // The posting is there. Gives memory back when a list has become much shorter.
  void Remove(RowId feature, Posting posting);

  // By falling value; of equal ones the smaller place first. Valid until the lists change.
  absl::Span<const Posting> Of(RowId feature) const {
    if (feature.value() >= lists_.size()) return {};
    const List& list = lists_[feature.value()];
    return {list.postings.get(), list.size};
  }

  // What Of() reads of the lists themselves, for lists that are likely not in the cache.
  void Prefetch(RowId feature) const {
    if (feature.value() < lists_.size()) PrefetchLine(&lists_[feature.value()]);
  }

  int64_t memory_bytes() const;

 private:
  struct List {
    std::unique_ptr<Posting[]> postings;
    uint32_t size = 0;
    uint32_t capacity = 0;
  };

  // Gives the list other memory, which holds its postings.
  void Replace(List& list, std::unique_ptr<Posting[]> postings, uint32_t capacity);

  std::vector<List> lists_;  // by feature
  int64_t allocated_bytes_ = 0;
};

}  // namespace dslide

// Which points of a memory are the oldest.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dslide {

// A heap of the points' times. A point that was replaced leaves its entry behind: whoever pops one
// looks whether the point is still there. Not thread-safe.
class PointAges {
 public:
  // Cost: O(log entries).
  void Add(uint32_t row, uint32_t time);
  // Takes out the oldest entry whose time is smaller than `time`, and returns its row; nothing when
  // there is none. Cost: O(log entries).
  std::optional<uint32_t> PopOlderThan(uint32_t time);
  void Clear() { entries_.clear(); }

  // Those of points that were replaced included.
  int64_t entries() const { return static_cast<int64_t>(entries_.size()); }
  int64_t memory_bytes() const {
    return static_cast<int64_t>(entries_.capacity() * sizeof(entries_[0]));
  }

 private:
  struct Entry {
    uint32_t time;
    uint32_t row;
  };
  static bool Younger(Entry a, Entry b) { return a.time > b.time; }

  std::vector<Entry> entries_;  // a heap, the oldest first
};

}  // namespace dslide

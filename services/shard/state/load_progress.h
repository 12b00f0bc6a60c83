// How far a shard is with taking its state from the disk, for people who wait for it.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace dslide::shard {

// Written by the thread that loads, read by any. Decides nothing.
class LoadProgress {
 public:
  // More rows are known to come.
  void Expect(int64_t rows) { expected_.fetch_add(rows, std::memory_order_relaxed); }
  void CountRow() { rows_.fetch_add(1, std::memory_order_relaxed); }
  void CountRecord() { records_.fetch_add(1, std::memory_order_relaxed); }

  int64_t rows() const { return rows_.load(std::memory_order_relaxed); }
  int64_t expected() const { return expected_.load(std::memory_order_relaxed); }
  // Of the command log.
  int64_t records() const { return records_.load(std::memory_order_relaxed); }

  // "taking its state from the disk: 1200 of 5000 rows, 17 records of the log".
  std::string Describe() const {
    std::string text = "taking its state from the disk";
    if (expected() > 0) absl::StrAppend(&text, ": ", rows(), " of ", expected(), " rows");
    if (records() > 0) absl::StrAppend(&text, ", ", records(), " records of the log");
    return text;
  }

 private:
  std::atomic<int64_t> expected_ = 0;
  std::atomic<int64_t> rows_ = 0;
  std::atomic<int64_t> records_ = 0;
};

}  // namespace dslide::shard

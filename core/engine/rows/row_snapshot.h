// The records of a table's rows as they were at one moment, while the rows go on changing: copy on
// write, a row at a time.
//
// Whoever is about to change a record for the first time since that moment keeps a copy of it here
// (StoredRows::Preserve); whoever writes the records down takes each of them once, from the copy
// or, where nobody has changed it, from where it is stored.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

class StoredRows;

// Costs one byte a row and the copies. Thread safety: safe from any thread.
class RowSnapshot {
 public:
  // rows: outlive it. With more than `max_copied_bytes` of copies, Preserve() waits for rows to be
  // taken.
  RowSnapshot(const StoredRows& rows, int64_t max_copied_bytes);

  // Before the record of `row` changes. record: its present bytes; empty: absent.
  void Preserve(LocalRow row, absl::Span<const char> record);

  // Puts the record as it was into `out`. Once for each row.
  void Take(LocalRow row, std::string& out);
  // The same without a copy: `read` gets the record as it was, and is to be quick, because who
  // wants to change the row spins meanwhile.
  void Read(LocalRow row, absl::FunctionRef<void(absl::Span<const char>)> read);

  // What is taken from now on may be empty and counts for nothing: copies are dropped, and
  // Preserve() keeps none.
  void Abandon();
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

  // Memory of the copies now.
  int64_t copied_bytes() const { return copied_bytes_.load(std::memory_order_relaxed); }

 private:
  enum State : uint8_t { kUntouched, kBusy, kCopied, kTaken };
  // Copies by row; several, so that threads seldom meet.
  struct Stripe {
    absl::Mutex mu;
    absl::flat_hash_map<uint32_t, std::string> copies ABSL_GUARDED_BY(mu);
  };
  static constexpr size_t kStripes = 64;

  Stripe& StripeOf(LocalRow row) { return stripes_[row.value() % kStripes]; }
  // True when the caller is the one to handle an untouched row, which is kBusy then.
  bool Claim(LocalRow row);

  const StoredRows& rows_;
  const int64_t max_copied_bytes_;
  std::vector<std::atomic<uint8_t>> states_;
  std::array<Stripe, kStripes> stripes_;
  std::atomic<int64_t> copied_bytes_ = 0;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace dslide

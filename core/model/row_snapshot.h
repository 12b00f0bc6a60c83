// The records of a row store as they were at one moment, while the store goes on changing: copy on
// write, a row at a time.
//
// Whoever is about to change a record for the first time since that moment keeps a copy of it here
// (RowStore does); whoever writes the records down takes each of them once, from the copy or, where
// nobody has changed it, from the store.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "core/base/ids.h"

namespace dslide {

// Costs one byte a row and the copies. Thread safety: safe from any thread.
class RowSnapshot {
 public:
  // With more than `max_copied_bytes` of copies, Preserve() waits for rows to be taken.
  RowSnapshot(int64_t num_rows, int64_t record_bytes, int64_t max_copied_bytes);

  // Before the record of `row` changes. record: its present bytes, [record_bytes].
  void Preserve(LocalRow row, const char* record);

  // Puts the record as it was into `out`, [record_bytes]. present: where the store has it. Once for
  // each row.
  void Take(LocalRow row, const char* present, char* out);
  // The same without a copy: `read` gets the record as it was, [record_bytes], and is to be quick,
  // because who wants to change the row spins meanwhile.
  void Read(LocalRow row, const char* present, absl::FunctionRef<void(const char*)> read);

  // What is taken from now on counts for nothing: copies are dropped, and Preserve() keeps none.
  void Abandon();
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

  // Memory of the copies now.
  int64_t copied_bytes() const { return copied_bytes_.load(std::memory_order_relaxed); }

 private:
  enum State : uint8_t { kUntouched, kBusy, kCopied, kTaken };
  // Copies by row; several, so that threads seldom meet.
  struct Stripe {
    absl::Mutex mu;
    absl::flat_hash_map<uint32_t, std::unique_ptr<char[]>> copies ABSL_GUARDED_BY(mu);
  };
  static constexpr size_t kStripes = 64;

  Stripe& StripeOf(LocalRow row) { return stripes_[row.value() % kStripes]; }
  // True when the caller is the one to handle an untouched row, which is kBusy then.
  bool Claim(LocalRow row);

  const int64_t record_bytes_;
  const int64_t max_copied_bytes_;
  std::vector<std::atomic<uint8_t>> states_;
  std::array<Stripe, kStripes> stripes_;
  std::atomic<int64_t> copied_bytes_ = 0;
  std::atomic<bool> abandoned_ = false;
};

}  // namespace dslide

#include "core/engine/rows/row_snapshot.h"

#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/engine/rows/stored_rows.h"

namespace dslide {
namespace {

constexpr absl::Duration kPauseForRoom = absl::Milliseconds(1);

}  // namespace

RowSnapshot::RowSnapshot(const StoredRows& rows, int64_t max_copied_bytes)
    : rows_(rows), max_copied_bytes_(max_copied_bytes), states_(rows.rows().num_rows()) {}

bool RowSnapshot::Claim(LocalRow row) {
  std::atomic<uint8_t>& state = states_[row.value()];
  for (;;) {
    uint8_t seen = state.load(std::memory_order_acquire);
    if (seen == kCopied || seen == kTaken) return false;
    // Busy: somebody copies it right now, which takes less time than to wait in any other way.
    if (seen == kUntouched && state.compare_exchange_weak(seen, kBusy, std::memory_order_acquire)) {
      return true;
    }
  }
}

void RowSnapshot::Preserve(LocalRow row, absl::Span<const char> record) {
  const uint8_t seen = states_[row.value()].load(std::memory_order_acquire);
  if (seen == kCopied || seen == kTaken) return;
  while (copied_bytes() > max_copied_bytes_ && !abandoned()) absl::SleepFor(kPauseForRoom);
  // Also when nobody wants the record any more: who reads it now must have read it before it goes.
  if (!Claim(row)) return;
  if (abandoned()) return states_[row.value()].store(kTaken, std::memory_order_release);
  std::string copy(record.data(), record.size());
  copied_bytes_.fetch_add(static_cast<int64_t>(record.size()), std::memory_order_relaxed);
  Stripe& stripe = StripeOf(row);
  {
    const absl::MutexLock lock(&stripe.mu);
    stripe.copies[row.value()] = std::move(copy);
  }
  states_[row.value()].store(kCopied, std::memory_order_release);
}

void RowSnapshot::Take(LocalRow row, std::string& out) {
  Read(row, [&](absl::Span<const char> record) { out.assign(record.data(), record.size()); });
}

void RowSnapshot::Read(LocalRow row, absl::FunctionRef<void(absl::Span<const char>)> read) {
  if (Claim(row)) {
    read(rows_.RecordSpan(row));
    states_[row.value()].store(kTaken, std::memory_order_release);
    return;
  }
  std::string copy;
  Stripe& stripe = StripeOf(row);
  {
    const absl::MutexLock lock(&stripe.mu);
    const auto found = stripe.copies.find(row.value());
    if (found != stripe.copies.end()) {
      copy = std::move(found->second);
      stripe.copies.erase(found);
    }
  }
  read(copy);  // empty: the row was absent, or the snapshot is abandoned
  states_[row.value()].store(kTaken, std::memory_order_release);
  copied_bytes_.fetch_sub(static_cast<int64_t>(copy.size()), std::memory_order_relaxed);
}

void RowSnapshot::Abandon() {
  abandoned_.store(true, std::memory_order_relaxed);
  for (Stripe& stripe : stripes_) {
    const absl::MutexLock lock(&stripe.mu);
    stripe.copies.clear();
  }
  copied_bytes_.store(0, std::memory_order_relaxed);
}

}  // namespace dslide

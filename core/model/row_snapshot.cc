#include "core/model/row_snapshot.h"

#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dslide {
namespace {

constexpr absl::Duration kPauseForRoom = absl::Milliseconds(1);

}  // namespace

RowSnapshot::RowSnapshot(int64_t num_rows, int64_t record_bytes, int64_t max_copied_bytes)
    : record_bytes_(record_bytes), max_copied_bytes_(max_copied_bytes), states_(num_rows) {}

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

void RowSnapshot::Preserve(LocalRow row, const char* record) {
  const uint8_t seen = states_[row.value()].load(std::memory_order_acquire);
  if (seen == kCopied || seen == kTaken) return;
  while (copied_bytes() > max_copied_bytes_ && !abandoned_.load(std::memory_order_relaxed)) {
    absl::SleepFor(kPauseForRoom);
  }
  if (abandoned_.load(std::memory_order_relaxed) || !Claim(row)) return;
  auto copy = std::make_unique<char[]>(record_bytes_);
  std::memcpy(copy.get(), record, record_bytes_);
  copied_bytes_.fetch_add(record_bytes_, std::memory_order_relaxed);
  Stripe& stripe = StripeOf(row);
  {
    const absl::MutexLock lock(&stripe.mu);
    stripe.copies[row.value()] = std::move(copy);
  }
  states_[row.value()].store(kCopied, std::memory_order_release);
}

void RowSnapshot::Take(LocalRow row, const char* present, char* out) {
  Read(row, present, [&](const char* record) { std::memcpy(out, record, record_bytes_); });
}

void RowSnapshot::Read(LocalRow row, const char* present,
                       absl::FunctionRef<void(const char*)> read) {
  if (Claim(row)) {
    read(present);
    states_[row.value()].store(kTaken, std::memory_order_release);
    return;
  }
  std::unique_ptr<char[]> copy;
  Stripe& stripe = StripeOf(row);
  {
    const absl::MutexLock lock(&stripe.mu);
    const auto found = stripe.copies.find(row.value());
    if (found != stripe.copies.end()) {
      copy = std::move(found->second);
      stripe.copies.erase(found);
    }
  }
  if (copy == nullptr) return read(present);  // abandoned meanwhile
  read(copy.get());
  states_[row.value()].store(kTaken, std::memory_order_release);
  copied_bytes_.fetch_sub(record_bytes_, std::memory_order_relaxed);
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

#include "core/engine/model/batch_inversion.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace dslide {
namespace {

// Pairs of a bucket, on average: with the room to sort them they stay in the L1 cache.
constexpr uint64_t kPairsPerBucket = 1024;
constexpr int kMaxBucketBits =
    8;  // the ends of 256 buckets stay in it, too, while they are written
constexpr int kMaxDigitBits = 8;
// Fewer pairs than this are sorted sooner than a second thread is there.
constexpr size_t kPairsForThreads = 1 << 14;

uint32_t RowBits(uint64_t key) { return static_cast<uint32_t>(key >> 32); }

// One stable counting pass over the digit of `bits` bits at `shift`.
void SortByDigit(absl::Span<const uint64_t> from, uint64_t* to, int shift, int bits) {
  std::array<uint32_t, size_t{1} << kMaxDigitBits> next = {};
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (const uint64_t key : from) ++next[key >> shift & mask];
  uint32_t begin = 0;
  for (uint64_t digit = 0; digit <= mask; ++digit) begin += std::exchange(next[digit], begin);
  for (const uint64_t key : from) to[next[key >> shift & mask]++] = key;
}

}  // namespace

absl::Span<uint64_t> BatchInversion::ResizeKeys(int64_t pairs) {
  keys_.resize(pairs);
  return absl::MakeSpan(keys_);
}

// From keys_ to buffer_, by the bits of the row above `low_bits`. Each part of the keys is counted
// and placed by itself; within a bucket the first part comes first, so that the order stays.
void BatchInversion::DealIntoBuckets(int low_bits, int bucket_bits, int parts) {
  const int shift = 32 + low_bits;
  const uint64_t buckets = uint64_t{1} << bucket_bits;
  const auto size = static_cast<int64_t>(keys_.size());
  places_.assign(parts * buckets, 0);
  ParallelFor({parts}, parts, /*grain=*/1, [&](int64_t part, int) {
    uint32_t* const counts = places_.data() + part * buckets;
    const auto [begin, end] = PartitionRange(size, parts, part);
    for (int64_t i = begin; i < end; ++i) ++counts[keys_[i] >> shift];
  });
  buckets_.assign(buckets, {});
  uint32_t place = 0;
  for (uint64_t bucket = 0; bucket < buckets; ++bucket) {
    buckets_[bucket].begin = place;
    for (int part = 0; part < parts; ++part) {
      place += std::exchange(places_[part * buckets + bucket], place);
    }
    buckets_[bucket].end = place;
  }
  ParallelFor({parts}, parts, /*grain=*/1, [&](int64_t part, int) {
    uint32_t* const places = places_.data() + part * buckets;
    const auto [begin, end] = PartitionRange(size, parts, part);
    for (int64_t i = begin; i < end; ++i) buffer_[places[keys_[i] >> shift]++] = keys_[i];
  });
}

// Sorts a bucket in buffer_ by the lowest `bits` bits of the row, with its part of keys_ as room,
// writes its tags and counts its rows.
void BatchInversion::SortBucket(Bucket& bucket, int bits) {
  const size_t size = bucket.end - bucket.begin;
  uint64_t* from = buffer_.data() + bucket.begin;
  uint64_t* to = keys_.data() + bucket.begin;
  const int passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  for (int pass = 0; pass < passes; ++pass) {
    const int low = bits * pass / passes;
    const int high = bits * (pass + 1) / passes;
    SortByDigit({from, size}, to, 32 + low, high - low);
    std::swap(from, to);
  }
  for (size_t i = 0; i < size; ++i) {
    tags_[bucket.begin + i] = static_cast<uint32_t>(from[i]);
    bucket.rows += i == 0 || RowBits(from[i]) != RowBits(from[i - 1]) ? 1 : 0;
  }
}

void BatchInversion::Invert(int64_t num_rows, Parallelism parallelism) {
  buffer_.resize(keys_.size());
  tags_.resize(keys_.size());
  const int threads = keys_.size() < kPairsForThreads ? 1 : std::max(1, parallelism.threads);
  const int row_bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(num_rows - 1, 1)));
  const int bucket_bits = std::min(
      {static_cast<int>(std::bit_width(keys_.size() / kPairsPerBucket)), kMaxBucketBits, row_bits});
  const int low_bits = row_bits - bucket_bits;
  DealIntoBuckets(low_bits, bucket_bits, threads);
  const auto num_buckets = static_cast<int64_t>(buckets_.size());
  ParallelFor({threads}, num_buckets, /*grain=*/8,
              [&](int64_t b, int) { SortBucket(buckets_[b], low_bits); });
  // An even number of passes ends where it began.
  const bool in_buffer = (low_bits + kMaxDigitBits - 1) / kMaxDigitBits % 2 == 0;
  const uint64_t* const sorted = in_buffer ? buffer_.data() : keys_.data();
  uint32_t rows = 0;
  for (Bucket& bucket : buckets_) rows += std::exchange(bucket.rows, rows);
  rows_.resize(rows);
  offsets_.resize(rows + 1);
  ParallelFor({threads}, num_buckets, /*grain=*/8, [&](int64_t b, int) {
    uint32_t next = buckets_[b].rows;
    for (uint32_t i = buckets_[b].begin; i < buckets_[b].end; ++i) {
      if (i > buckets_[b].begin && RowBits(sorted[i]) == RowBits(sorted[i - 1])) continue;
      rows_[next] = LocalRow(RowBits(sorted[i]));
      offsets_[next++] = i;
    }
  });
  offsets_[rows] = static_cast<uint32_t>(keys_.size());
}

}  // namespace dslide

#include "core/engine/lsh/dwta.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

constexpr uint64_t kDwtaPart = 2;
// Streams of the family's key.
constexpr uint64_t kPermutationStream = 0;
constexpr uint64_t kProbeStream = 1;
constexpr uint64_t kFallbackStream = 2;

constexpr int64_t kNumExtras = 2;
// With one bin in 16 filled, 64 probes miss all of them once in 60 times.
constexpr uint64_t kMaxProbes = 64;
// The winner of a bin of nothing but missing entries.
constexpr int32_t kNoWinner = -1;
constexpr float kMissing = -std::numeric_limits<float>::infinity();

uint64_t Stream(uint64_t seed, uint64_t stream) {
  return DeriveKey(DeriveKey(seed, kDwtaPart), stream);
}

// Uniform in [0, bound) from 64 random bits, as CounterRng::NextBelow.
uint64_t ScaleBits(uint64_t bits, uint64_t bound) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * bound) >> 64);
}

// Fisher-Yates from the last place down.
std::vector<uint32_t> RandomPermutation(uint64_t key, int64_t n) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  CounterRng rng(key);
  for (int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[rng.NextBelow(i + 1)]);
  return order;
}

}  // namespace

// Working memory of one thread.
struct Dwta::Scratch {
  Scratch(int64_t extended_dim, int64_t num_bins)
      : vectors(extended_dim), winners(num_bins * kHashLanes) {}
  LaneBlock vectors;             // [extended dim, lanes]
  std::vector<int32_t> winners;  // [bins, lanes]: position in the bin or kNoWinner
};

Dwta::Dwta(const HashSpec& spec, int64_t dim)
    : dim_(dim),
      codes_(spec.codes_per_table),
      num_tables_(spec.num_tables),
      bin_size_(spec.bin_size),
      code_bits_(std::bit_width(static_cast<uint64_t>(spec.bin_size)) - 1),
      probe_key_(Stream(spec.seed, kProbeStream)),
      fallback_key_(Stream(spec.seed, kFallbackStream)) {
  const int64_t extended_dim = dim_ + kNumExtras;
  bin_width_ = std::min(bin_size_, extended_dim);
  const int64_t bins_per_permutation = extended_dim / bin_width_;
  const int64_t num_bins = codes_ * num_tables_;
  coordinates_.reserve(num_bins * bin_width_);
  const uint64_t permutations_key = Stream(spec.seed, kPermutationStream);
  std::vector<uint32_t> order;
  for (int64_t bin = 0; bin < num_bins; ++bin) {
    const int64_t place = bin % bins_per_permutation;
    if (place == 0) {
      order =
          RandomPermutation(DeriveKey(permutations_key, bin / bins_per_permutation), extended_dim);
    }
    const auto begin = order.begin() + place * bin_width_;
    coordinates_.insert(coordinates_.end(), begin, begin + bin_width_);
  }
}

void Dwta::HashQueries(absl::Span<const float> hidden, int64_t count, Parallelism parallelism,
                       absl::Span<uint32_t> fingerprints) const {
  Hash({hidden.data(), nullptr, count}, parallelism, fingerprints.data());
}

void Dwta::HashRows(absl::Span<const float> rows, absl::Span<const float> extras, int64_t count,
                    Parallelism parallelism, absl::Span<uint32_t> fingerprints) const {
  Hash({rows.data(), extras.data(), count}, parallelism, fingerprints.data());
}

void Dwta::Hash(const HashInput& input, Parallelism parallelism, uint32_t* fingerprints) const {
  std::vector<std::unique_ptr<Scratch>> scratch(std::max(1, parallelism.threads));
  const int64_t groups = (input.count + kHashLanes - 1) / kHashLanes;
  ParallelFor(parallelism, groups, /*grain=*/2, [&](int64_t group, int thread) {
    if (scratch[thread] == nullptr) {
      scratch[thread] = std::make_unique<Scratch>(dim_ + kNumExtras, codes_ * num_tables_);
    }
    const int64_t first = group * kHashLanes;
    const int64_t lanes = std::min(kHashLanes, input.count - first);
    HashGroup(input, first, lanes, *scratch[thread], fingerprints + first * num_tables_);
  });
}

void Dwta::FindWinners(Scratch& scratch) const {
  const int64_t num_bins = codes_ * num_tables_;
  for (int64_t bin = 0; bin < num_bins; ++bin) {
    alignas(64) float best[kHashLanes];
    alignas(64) int32_t winner[kHashLanes];
    std::fill_n(best, kHashLanes, kMissing);
    std::fill_n(winner, kHashLanes, kNoWinner);
    const uint32_t* coordinates = coordinates_.data() + bin * bin_width_;
    for (int64_t j = 0; j < bin_width_; ++j) {
      const float* values = scratch.vectors.row(coordinates[j]);
      const int32_t position = static_cast<int32_t>(j);
      for (int64_t lane = 0; lane < kHashLanes; ++lane) {
        const bool better = values[lane] > best[lane];  // strict: the first of equals wins
        best[lane] = better ? values[lane] : best[lane];
        winner[lane] = better ? position : winner[lane];
      }
    }
    std::copy_n(winner, kHashLanes, scratch.winners.data() + bin * kHashLanes);
  }
}

uint32_t Dwta::BorrowedCode(const Scratch& scratch, int64_t bin, int64_t lane) const {
  const uint64_t num_bins = codes_ * num_tables_;
  for (uint64_t probe = 0; probe < kMaxProbes; ++probe) {
    const uint64_t other = ScaleBits(CounterBits(probe_key_, bin * kMaxProbes + probe), num_bins);
    const int32_t winner = scratch.winners[other * kHashLanes + lane];
    if (winner != kNoWinner) return static_cast<uint32_t>(winner);
  }
  return static_cast<uint32_t>(CounterBits(fallback_key_, bin) & (bin_size_ - 1));
}

void Dwta::HashGroup(const HashInput& input, int64_t first, int64_t lanes, Scratch& scratch,
                     uint32_t* fingerprints) const {
  scratch.vectors.LoadTransposed(input.vectors + first * dim_, dim_, lanes);
  for (int64_t which = 0; which < kNumExtras; ++which) {
    float* extras = scratch.vectors.row(dim_ + which);
    for (int64_t lane = 0; lane < lanes; ++lane) extras[lane] = input.Extra(first + lane, which);
  }
  if (input.extras == nullptr) {  // queries
    float* begin = scratch.vectors.data();
    std::replace(begin, begin + scratch.vectors.rows() * kHashLanes, 0.0f, kMissing);
  }
  FindWinners(scratch);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    int64_t bin = 0;
    for (int64_t t = 0; t < num_tables_; ++t) {
      uint32_t packed = 0;
      for (int64_t k = 0; k < codes_; ++k, ++bin) {
        const int32_t winner = scratch.winners[bin * kHashLanes + lane];
        const uint32_t code =
            winner != kNoWinner ? static_cast<uint32_t>(winner) : BorrowedCode(scratch, bin, lane);
        packed |= code << (k * code_bits_);
      }
      fingerprints[lane * num_tables_ + t] = packed;
    }
  }
}

}  // namespace dslide

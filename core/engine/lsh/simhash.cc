#include "core/engine/lsh/simhash.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

constexpr uint64_t kSimHashPart = 1;
constexpr int64_t kMinWidth = 16;
constexpr uint64_t kFirstExtraStream = 3;

// Sign i is bit i % 64 of word i / 64: 1 means -1.
std::vector<float> RandomSigns(uint64_t key, int64_t n) {
  std::vector<float> signs(n);
  for (int64_t i = 0; i < n; ++i) {
    signs[i] = (CounterBits(key, i / 64) >> (i % 64)) & 1 ? -1.0f : 1.0f;
  }
  return signs;
}

}  // namespace

// Working memory of one thread.
struct SimHash::Scratch {
  explicit Scratch(int64_t width) : vectors(width), projections(width) {}
  LaneBlock vectors;
  LaneBlock projections;
  alignas(64) float extras[2][kHashLanes];
  alignas(64) uint32_t packed[kHashLanes];
};

SimHash::SimHash(const HashSpec& spec, int64_t dim)
    : dim_(dim),
      codes_(spec.codes_per_table),
      num_tables_(spec.num_tables),
      width_(std::max<int64_t>(kMinWidth, std::bit_ceil(static_cast<uint64_t>(dim)))) {
  const uint64_t family_key = DeriveKey(spec.seed, kSimHashPart);
  const int64_t num_blocks = (codes_ * num_tables_ + width_ - 1) / width_;
  blocks_.resize(num_blocks);
  for (int64_t b = 0; b < num_blocks; ++b) {
    const uint64_t key = DeriveKey(family_key, b);
    for (uint64_t round = 0; round < 3; ++round) {
      blocks_[b].signs[round] = RandomSigns(DeriveKey(key, round), width_);
    }
    for (uint64_t extra = 0; extra < 2; ++extra) {
      blocks_[b].extra_signs[extra] =
          RandomSigns(DeriveKey(key, kFirstExtraStream + extra), width_);
    }
  }
}

void SimHash::HashQueries(absl::Span<const float> hidden, int64_t count, Parallelism parallelism,
                          absl::Span<uint32_t> fingerprints) const {
  Hash({hidden.data(), nullptr, count}, parallelism, fingerprints.data());
}

void SimHash::HashRows(absl::Span<const float> rows, absl::Span<const float> extras, int64_t count,
                       Parallelism parallelism, absl::Span<uint32_t> fingerprints) const {
  Hash({rows.data(), extras.data(), count}, parallelism, fingerprints.data());
}

void SimHash::Hash(const HashInput& input, Parallelism parallelism, uint32_t* fingerprints) const {
  std::vector<std::unique_ptr<Scratch>> scratch(std::max(1, parallelism.threads));
  const int64_t groups = (input.count + kHashLanes - 1) / kHashLanes;
  ParallelFor(parallelism, groups, /*grain=*/2, [&](int64_t group, int thread) {
    if (scratch[thread] == nullptr) scratch[thread] = std::make_unique<Scratch>(width_);
    const int64_t first = group * kHashLanes;
    const int64_t lanes = std::min(kHashLanes, input.count - first);
    HashGroup(input, first, lanes, *scratch[thread], fingerprints + first * num_tables_);
  });
}

// scratch.projections = H D3 H D2 H D1 scratch.vectors, not yet divided by n.
void SimHash::Project(const Block& block, Scratch& scratch) const {
  const float* from = scratch.vectors.data();
  float* const y = scratch.projections.data();
  for (const std::vector<float>& signs : block.signs) {
    SignedHadamardLanes(from, signs.data(), y, width_);
    from = y;
  }
}

void SimHash::HashGroup(const HashInput& input, int64_t first, int64_t lanes, Scratch& scratch,
                        uint32_t* fingerprints) const {
  scratch.vectors.LoadTransposed(input.vectors + first * dim_, dim_, lanes);
  for (int64_t lane = 0; lane < kHashLanes; ++lane) {
    for (int64_t which = 0; which < 2; ++which) {
      scratch.extras[which][lane] = lane < lanes ? input.Extra(first + lane, which) : 0.0f;
    }
  }
  int64_t bit = 0;
  for (int64_t t = 0; t < num_tables_; ++t) {
    std::fill_n(scratch.packed, kHashLanes, 0u);
    for (int64_t code = 0; code < codes_;) {
      const Block& block = blocks_[bit / width_];
      const int64_t i = bit % width_;
      if (i == 0) Project(block, scratch);
      // A table's codes may continue in the next block.
      const int64_t count = std::min(codes_ - code, width_ - i);
      SignBits(block, i, code, count, scratch);
      code += count;
      bit += count;
    }
    for (int64_t lane = 0; lane < lanes; ++lane) {
      fingerprints[lane * num_tables_ + t] = scratch.packed[lane];
    }
  }
}

// Codes first .. first + count - 1 of the present table from the projections i, i + 1, ....
void SimHash::SignBits(const Block& block, int64_t i, int64_t first, int64_t count,
                       Scratch& scratch) const {
  // Nearly normal factors of the extras, in place of signs, would give the textbook collision
  // probability for short rows too; they were measured to find less: see
  // docs/understand/hashing.md.
  const SignBitsInput input{
      .scale = 1.0f / static_cast<float>(width_),  // exact: a power of two
      .extra_signs = {block.extra_signs[0].data() + i, block.extra_signs[1].data() + i},
      .extras = {scratch.extras[0], scratch.extras[1]}};
  SignBitsLanes(scratch.projections.row(i), input, first, count, scratch.packed);
}

}  // namespace dslide

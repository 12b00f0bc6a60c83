#include "core/engine/trees/row_lists.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "core/base/prefetch.h"

namespace dslide {
namespace {

constexpr int64_t kBlockRows = int64_t{1} << 16;
// Parts of the columns whose lists are filled at a time: threads share them, and the ends of all
// their lists stay in reach of the processor.
constexpr int64_t kColumnParts = 16;

uint32_t EntriesOf(absl::Span<const char> record) {
  return record.empty() ? 0 : SparseRowView(record.data()).entries();
}

// Calls visit(place, column, weight) for the entries of the rows in the columns [first, last).
template <typename Visit>
void VisitColumns(absl::Span<const SparseRowView> rows, uint32_t first, uint32_t last,
                  const Visit& visit) {
  for (size_t place = 0; place < rows.size(); ++place) {
    const absl::Span<const uint32_t> columns = rows[place].columns();
    const absl::Span<const BFloat16> weights = rows[place].weights();
    const auto begin = std::lower_bound(columns.begin(), columns.end(), first);
    for (auto i = static_cast<size_t>(begin - columns.begin());
         i < columns.size() && columns[i] < last; ++i) {
      visit(static_cast<uint16_t>(place), columns[i], weights[i]);
    }
  }
}

}  // namespace

RowLists::RowLists(int64_t rows, RecordOf record_of, int64_t columns, int64_t room,
                   Parallelism parallelism)
    : columns_(columns) {
  const uint64_t least = ChooseLeast(rows, record_of, room);
  std::vector<SparseRowView> listed;
  for (uint32_t row = 0; row < rows; ++row) {
    const absl::Span<const char> record = record_of(row);
    if (EntriesOf(record) < least) continue;
    if (listed.empty()) places_.assign(static_cast<size_t>(rows), kNotListed);
    places_[row] = static_cast<uint32_t>(listed.size());
    listed.emplace_back(record.data());
    biases_.push_back(listed.back().bias());
  }
  biases_.shrink_to_fit();
  for (int64_t first = 0; first < this->listed(); first += kBlockRows) {
    blocks_.push_back(
        MakeBlock(absl::MakeConstSpan(listed).subspan(static_cast<size_t>(first), kBlockRows),
                  columns, parallelism));
    blocks_.back().first = first;
  }
}

int64_t RowLists::BytesFor(int64_t rows, int64_t listed, int64_t entries) const {
  const int64_t blocks = (listed + kBlockRows - 1) / kBlockRows;
  return rows * static_cast<int64_t>(sizeof(uint32_t)) +
         listed * static_cast<int64_t>(sizeof(float)) +
         blocks * (columns_ + 1) * static_cast<int64_t>(sizeof(uint64_t)) +
         entries * static_cast<int64_t>(sizeof(Posting));
}

uint64_t RowLists::ChooseLeast(int64_t rows, RecordOf record_of, int64_t room) const {
  constexpr int kLeastBits = std::bit_width(kLeastEntries);
  struct Count {
    int64_t rows = 0;
    int64_t entries = 0;
  };
  std::array<Count, 33> counts = {};  // by the bits of the number of entries
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t entries = EntriesOf(record_of(row));
    Count& count = counts[static_cast<size_t>(std::bit_width(entries))];
    ++count.rows;
    count.entries += entries;
  }
  Count sum;
  int bits = 33;
  for (; bits > kLeastBits; --bits) {
    const Count& next = counts[static_cast<size_t>(bits - 1)];
    sum.rows += next.rows;
    sum.entries += next.entries;
    if (BytesFor(rows, sum.rows, sum.entries) > room) break;
  }
  return uint64_t{1} << (bits - 1);
}

RowLists::Block RowLists::MakeBlock(absl::Span<const SparseRowView> rows, int64_t columns,
                                    Parallelism parallelism) {
  Block block;
  block.offsets.resize(static_cast<size_t>(columns) + 1);
  const auto for_parts = [&](const auto& body) {
    ParallelFor(parallelism, kColumnParts, 1, [&](int64_t part, int /*thread*/) {
      const auto [first, last] = PartitionRange(columns, kColumnParts, part);
      body(static_cast<uint32_t>(first), static_cast<uint32_t>(last));
    });
  };
  for_parts([&](uint32_t first, uint32_t last) {
    VisitColumns(rows, first, last, [&](uint16_t /*place*/, uint32_t column, BFloat16 /*weight*/) {
      ++block.offsets[column];
    });
  });
  uint64_t before = 0;
  for (uint64_t& offset : block.offsets) before += std::exchange(offset, before);
  block.postings.resize(before);
  // Each list's offset becomes its end, which is where the next one begins.
  for_parts([&](uint32_t first, uint32_t last) {
    VisitColumns(rows, first, last, [&](uint16_t place, uint32_t column, BFloat16 weight) {
      block.postings[block.offsets[column]++] = {.place = place, .value = weight};
    });
  });
  std::copy_backward(block.offsets.begin(), block.offsets.end() - 1, block.offsets.end());
  block.offsets.front() = 0;
  return block;
}

int64_t RowLists::memory_bytes() const {
  int64_t entries = 0;
  for (const Block& block : blocks_) entries += static_cast<int64_t>(block.postings.size());
  return BytesFor(static_cast<int64_t>(places_.size()), listed(), entries);
}

void RowLists::AddUp(absl::Span<const RowId> features, absl::Span<const float> values,
                     std::vector<float>& sums) const {
  sums.assign(biases_.size(), 0);
  size_t known = features.size();
  while (known > 0 && features[known - 1].value() >= columns_) --known;
  for (const Block& block : blocks_) {
    // A list is two steps away: all first steps are made before the second ones.
    for (size_t i = 0; i < known; ++i) PrefetchLine(&block.offsets[features[i].value()]);
    for (size_t i = 0; i < known; ++i) {
      const absl::Span<const Posting> list = block.Of(features[i]);
      PrefetchLines(list.data(), std::min<int64_t>(list.size() * sizeof(Posting), 256));
    }
    float* const block_sums = sums.data() + block.first;
    for (size_t i = 0; i < known; ++i) {
      const float value = values[i];
      for (const Posting& posting : block.Of(features[i])) {
        block_sums[posting.place] += value * ToFloat(posting.value);
      }
    }
  }
}

}  // namespace dslide

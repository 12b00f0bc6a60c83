#include "core/engine/lsh/candidate_pool.h"

#include <algorithm>
#include <bit>

#include "core/engine/lsh/candidates.h"
#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_sketch.h"

namespace dslide {
namespace {

constexpr uint32_t kBits = 64;
// Fewer are copied by one thread before another has woken up.
constexpr int64_t kRowsPerGrain = 4096;
constexpr int64_t kColumnPadding = 16;

size_t WordsFor(size_t bits) { return bits / kBits + 1; }

}  // namespace

void CandidatePool::Reset(int64_t num_rows) {
  // Marks are all 0 between batches, so that growing is all there is to do.
  const size_t words = WordsFor(static_cast<size_t>(num_rows));
  if (marks_.size() < words) marks_.resize(words, 0);
  if (marked_.size() < WordsFor(words)) marked_.resize(WordsFor(words), 0);
  labels_only_.clear();
  rows_.clear();
}

bool CandidatePool::Insert(LocalRow row) {
  const uint32_t word = row.value() / kBits;
  const uint64_t bit = uint64_t{1} << row.value() % kBits;
  if ((marks_[word] & bit) != 0) return false;
  marks_[word] |= bit;
  marked_[word / kBits] |= uint64_t{1} << word % kBits;
  return true;
}

void CandidatePool::Propose(absl::Span<const LocalRow> rows) {
  for (const LocalRow row : rows) Insert(row);
}

void CandidatePool::AddLabels(absl::Span<const LocalRow> labels) {
  for (const LocalRow label : labels) {
    if (Insert(label)) labels_only_.push_back(label);
  }
}

void CandidatePool::Collect(const RowCodes& codes, Parallelism parallelism) {
  std::sort(labels_only_.begin(), labels_only_.end());
  for (size_t m = 0; m < marked_.size(); ++m) {
    for (uint64_t words = marked_[m]; words != 0; words &= words - 1) {
      const auto word = static_cast<uint32_t>(m * kBits) + std::countr_zero(words);
      for (uint64_t bits = marks_[word]; bits != 0; bits &= bits - 1) {
        rows_.emplace_back(static_cast<uint32_t>(word * kBits) + std::countr_zero(bits));
      }
      marks_[word] = 0;
    }
    marked_[m] = 0;
  }
  const auto size = static_cast<int64_t>(rows_.size());
  stride_ = (size + kColumnPadding - 1) / kColumnPadding * kColumnPadding;
  const auto words = static_cast<size_t>(stride_ * codes.words_per_row());
  if (columns_.size() < words) columns_.resize(words);
  const int64_t grains = (size + kRowsPerGrain - 1) / kRowsPerGrain;
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int) {
    const int64_t first = grain * kRowsPerGrain;
    codes.CopyToColumns(rows().subspan(static_cast<size_t>(first), kRowsPerGrain), stride_,
                        columns_.data() + first);
  });
}

bool CandidatePool::WouldBeTaken(int64_t place, const uint16_t* equal, uint16_t cutoff,
                                 int64_t budget) const {
  const uint16_t own = equal[place];
  if (own == 0 || own < cutoff) return false;
  if (own > cutoff) return true;
  const auto more = static_cast<uint16_t>(own + 1);
  const int64_t better = CountAtLeast(equal, static_cast<int64_t>(rows_.size()), more);
  const int64_t ties_before = CountAtLeast(equal, place, own) - CountAtLeast(equal, place, more);
  return better + ties_before < budget;
}

void CandidatePool::Rank(const RowCodes& codes, const HashQuery& query, int64_t budget,
                         SelectScratch& scratch, Selection& selection) const {
  const auto size = static_cast<int64_t>(rows_.size());
  std::vector<uint64_t>& packed = scratch.queries[0].codes;
  packed.resize(codes.words_per_row());
  codes.Pack(query.fingerprints.data(), packed.data());
  if (scratch.equal.size() < rows_.size()) scratch.equal.resize(rows_.size());
  if (scratch.above.size() < rows_.size()) scratch.above.resize(rows_.size());
  if (scratch.ties.size() < rows_.size()) scratch.ties.resize(rows_.size());
  uint16_t* const equal = scratch.equal.data();
  CountEqualCodes({columns_.data(), size, stride_, codes.words_per_row()}, codes.shape(),
                  packed.data(), equal);

  selection.active.assign(query.labels.begin(), query.labels.end());
  selection.missed_labels.clear();
  const auto place_of = [&](LocalRow row) {
    return std::lower_bound(rows_.begin(), rows_.end(), row) - rows_.begin();
  };
  // The most equal codes that `wanted` rows reach; 0 where fewer have any.
  const auto cutoff_for = [&](int64_t wanted) {
    const auto all_codes = static_cast<uint16_t>(codes.num_codes());
    return HighestReached(equal, size, wanted, uint16_t{0}, all_codes,
                          std::min(scratch.expected_equal, all_codes));
  };
  // Labels are judged as if they had been mere candidates, then taken out of the ranking.
  if (query.judge_labels) {
    const int64_t room = std::max<int64_t>(budget, 0);
    const uint16_t cutoff = cutoff_for(std::max<int64_t>(room, 1));
    for (const LocalRow label : query.labels) {
      if (room == 0 || std::binary_search(labels_only_.begin(), labels_only_.end(), label) ||
          !WouldBeTaken(place_of(label), equal, cutoff, room)) {
        selection.missed_labels.push_back(label);
      }
    }
  }
  for (const LocalRow label : query.labels) equal[place_of(label)] = 0;
  const int64_t left = budget - static_cast<int64_t>(query.labels.size());
  if (left < 1) return;
  const uint16_t cutoff = cutoff_for(left);
  scratch.expected_equal = cutoff;
  LocalRow* const above = scratch.above.data();
  LocalRow* const ties = scratch.ties.data();
  const SplitSizes sizes =
      SplitByCount(Numbers(rows_.data()), equal, size, cutoff, Numbers(above), Numbers(ties));
  selection.active.insert(selection.active.end(), above, above + sizes.above);
  if (cutoff == 0) return;  // everything with an equal code is above
  // Rows ascend, and so do the ties.
  selection.active.insert(selection.active.end(), ties, ties + (left - sizes.above));
}

}  // namespace dslide

#include "core/engine/lsh/candidate_ranking.h"

#include <algorithm>
#include <vector>

#include "core/engine/lsh/candidate_draw.h"
#include "core/engine/lsh/candidates.h"
#include "core/engine/lsh/row_order.h"
#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_sketch.h"

namespace dslide {
namespace {

// How far down the ranking a budget reaches: all rows with more than `agreements` equal codes, and
// the `ties` smallest rows of those with exactly as many.
struct Cutoff {
  int64_t agreements = 0;
  int64_t ties = 0;
};

// `counts[a]` rows have `a` equal codes; a = 0 is not counted.
Cutoff FindCutoff(const std::vector<uint32_t>& counts, int64_t budget) {
  int64_t left = budget;
  for (int64_t a = static_cast<int64_t>(counts.size()) - 1; a > 0; --a) {
    if (counts[a] >= left) return {a, left};
    left -= counts[a];
  }
  return {};
}

// Writes how many codes each row that was seen and each label shares with the query, and how many
// of both have each number to `counts`. A row that shares a bucket shares that table's codes,
// unless it was hashed again since the tables were sorted: then it may have none, and does not
// survive.
void CountEqualCodes(const RowCodes& codes, absl::Span<const LocalRow> labels,
                     SelectScratch& scratch, SelectScratch::Query& query) {
  const absl::Span<const LocalRow> seen(query.seen.data(), query.num_seen);
  if (scratch.equal.size() < seen.size()) scratch.equal.resize(seen.size());
  codes.CountEqual(seen, query.codes.data(), scratch.equal.data());
  query.label_equal.resize(labels.size());
  codes.CountEqual(labels, query.codes.data(), query.label_equal.data());
  for (size_t i = 0; i < labels.size(); ++i) {
    if (query.label_found[i] == 0) query.label_equal[i] = 0;
  }
  scratch.counts.assign(codes.num_codes() + 1, 0);
  for (size_t i = 0; i < seen.size(); ++i) ++scratch.counts[scratch.equal[i]];
  for (const uint16_t equal : query.label_equal) ++scratch.counts[equal];
}

// Whether label i survives `cutoff` among all rows that were found. equal: [seen].
bool Survives(size_t i, const Cutoff& cutoff, absl::Span<const LocalRow> labels,
              const SelectScratch& scratch, const SelectScratch::Query& query) {
  const int64_t own = query.label_equal[i];
  if (own == 0 || own < cutoff.agreements) return false;
  if (own > cutoff.agreements) return true;
  int64_t ahead = 0;
  for (int64_t k = 0; k < query.num_seen; ++k) {
    ahead += scratch.equal[k] == own && query.seen[k] < labels[i];
  }
  for (size_t k = 0; k < i; ++k) ahead += query.label_equal[k] == own;  // labels ascend
  return ahead < cutoff.ties;
}

// Appends the rows above the cutoff. Overwrites query.seen.
void TakeBest(const Cutoff& cutoff, int64_t num_rows, SelectScratch& scratch,
              SelectScratch::Query& query, std::vector<LocalRow>& active) {
  LocalRow* const above = scratch.above.data();
  LocalRow* const ties = scratch.ties.data();
  const SplitSizes sizes =
      SplitByCount(Numbers(query.seen.data()), scratch.equal.data(), query.num_seen,
                   static_cast<uint16_t>(cutoff.agreements), Numbers(above), Numbers(ties));
  active.insert(active.end(), above, above + sizes.above);
  if (cutoff.agreements == 0) return;  // everything is above
  KeepSmallest({ties, static_cast<size_t>(sizes.equal)}, cutoff.ties, num_rows,
               absl::MakeSpan(query.seen));
  active.insert(active.end(), ties, ties + cutoff.ties);
}

// Lists the candidates that TakeBest() will leave, but for those of them that are ties: these are
// all listed, behind the returned number of others.
int64_t ListRest(const Cutoff& cutoff, SelectScratch& scratch, const SelectScratch::Query& query) {
  scratch.rest.clear();
  const auto list = [&](int64_t low, int64_t high) {
    for (int64_t k = 0; k < query.num_seen; ++k) {
      const int64_t equal = scratch.equal[k];
      if (equal >= low && equal < high) scratch.rest.push_back(query.seen[k]);
    }
  };
  if (cutoff.agreements == 0) return 0;
  list(1, cutoff.agreements);
  const auto below = static_cast<int64_t>(scratch.rest.size());
  list(cutoff.agreements, cutoff.agreements + 1);
  return below;
}

// Takes the best, and draws from the others.
void TakeBestAndSome(const HashQuery& wanted, int64_t room, int64_t num_rows,
                     SelectScratch& scratch, SelectScratch::Query& query, Selection& selection) {
  const int64_t drawn = std::min(wanted.drawn, room);
  const Cutoff cutoff = FindCutoff(scratch.counts, room - drawn);
  const int64_t below = ListRest(cutoff, scratch, query);
  TakeBest(cutoff, num_rows, scratch, query, selection.active);
  std::vector<LocalRow>& rest = scratch.rest;
  if (cutoff.ties > 0) {
    const auto kept_end = selection.active.end();
    const LocalRow last = *std::max_element(kept_end - cutoff.ties, kept_end);
    rest.erase(std::remove_if(rest.begin() + below, rest.end(),
                              [last](LocalRow row) { return row <= last; }),
               rest.end());
  }
  const auto others = static_cast<int64_t>(rest.size());
  if (others > drawn) {
    DrawRows(absl::MakeSpan(rest), drawn, wanted.draw_key, scratch.drawing);
    selection.drawn = drawn;
    selection.drawn_from = others;
    selection.left_out.assign(rest.begin() + drawn, rest.end());
    rest.resize(drawn);
  }
  selection.active.insert(selection.active.end(), rest.begin(), rest.end());
}

}  // namespace

void RankCandidates(const RowCodes& codes, const HashQuery& wanted, int64_t budget,
                    SelectScratch& scratch, SelectScratch::Query& query, Selection& selection) {
  const absl::Span<const LocalRow> labels = wanted.labels;
  CountEqualCodes(codes, labels, scratch, query);
  // Labels are judged as if they had been mere candidates, then taken out of the ranking.
  const Cutoff with_labels =
      FindCutoff(scratch.counts, std::max<int64_t>(budget - wanted.drawn, 0));
  for (size_t i = 0; i < labels.size(); ++i) {
    if (!Survives(i, with_labels, labels, scratch, query)) {
      selection.missed_labels.push_back(labels[i]);
    }
  }
  for (const uint16_t equal : query.label_equal) --scratch.counts[equal];
  const int64_t left = std::max<int64_t>(budget - static_cast<int64_t>(labels.size()), 0);
  if (wanted.drawn > 0) {
    return TakeBestAndSome(wanted, left, codes.num_rows(), scratch, query, selection);
  }
  TakeBest(FindCutoff(scratch.counts, left), codes.num_rows(), scratch, query, selection.active);
}

}  // namespace dslide

#include "core/engine/trees/table_scorer.h"

#include "core/base/prefetch.h"
#include "core/engine/trees/sparse_row.h"

namespace dslide {
namespace {

// To list the long rows takes as long as some hundred samples: rows that change soon are not worth
// it.
constexpr int64_t kSamplesUntilLists = 64;
// Rows between the times at which the memory is asked for one: where it is, how long it is, and all
// of it.
constexpr size_t kAhead = 6;

// Calls visit(i, record) for each of the rows that is there.
template <typename Visit>
void VisitRecords(const RecordStore& table, absl::Span<const LocalRow> rows, const Visit& visit) {
  // Records lie anywhere in memory, and so do the pointers to them.
  for (size_t i = 0; i < rows.size() + 3 * kAhead; ++i) {
    if (i < rows.size()) table.PrefetchPlace(rows[i]);
    if (i >= kAhead && i - kAhead < rows.size()) table.PrefetchRecord(rows[i - kAhead], 1);
    if (i >= 2 * kAhead && i - 2 * kAhead < rows.size()) {
      const absl::Span<const char> record = table.Record(rows[i - 2 * kAhead]);
      PrefetchLines(record.data(), static_cast<int64_t>(record.size()));
    }
    if (i < 3 * kAhead) continue;
    const absl::Span<const char> record = table.Record(rows[i - 3 * kAhead]);
    if (!record.empty()) visit(i - 3 * kAhead, record);
  }
}

}  // namespace

void TableScorer::Score(const RecordStore& table, int64_t columns,
                        absl::Span<const Asked> samples) {
  ParallelFor(parallelism_, static_cast<int64_t>(samples.size()), 1, [&](int64_t i, int thread) {
    ScoreSample(table, columns, samples[static_cast<size_t>(i)],
                scratch_[static_cast<size_t>(thread)]);
  });
}

void TableScorer::ScoreSample(const RecordStore& table, int64_t columns, const Asked& asked,
                              Scratch& scratch) const {
  absl::Span<const RowId> features = asked.features;
  while (!features.empty() && features.back().value() >= columns) features.remove_suffix(1);
  const absl::Span<const float> values = asked.values.first(features.size());
  scratch.rows.clear();
  scratch.places.clear();
  if (lists_ != nullptr) lists_->AddUp(features, values, scratch.sums);
  for (size_t i = 0; i < asked.rows.size(); ++i) {
    const uint32_t place =
        lists_ == nullptr ? RowLists::kNotListed : lists_->PlaceOf(asked.rows[i].value());
    if (place != RowLists::kNotListed) {
      asked.scores[i] = lists_->Score(place, scratch.sums);
    } else {
      scratch.rows.push_back(asked.rows[i]);
      scratch.places.push_back(i);
    }
  }
  scratch.scorer.Set(features, values, columns);
  VisitRecords(table, scratch.rows, [&](size_t i, absl::Span<const char> record) {
    asked.scores[scratch.places[i]] = scratch.scorer.Score(SparseRowView(record.data()));
  });
}

void TableScorer::Keep(const RecordStore& table, int64_t columns, int64_t samples, int64_t room) {
  if (lists_ != nullptr || room <= 0) return;
  counted_ += samples;
  if (counted_ <= kSamplesUntilLists) return;
  lists_ = std::make_unique<RowLists>(
      table.num_rows(), [&](uint32_t row) { return table.Record(LocalRow(row)); }, columns, room,
      parallelism_);
}

void TableScorer::Forget() {
  lists_ = nullptr;
  counted_ = 0;
}

}  // namespace dslide

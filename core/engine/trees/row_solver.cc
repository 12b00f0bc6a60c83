#include "core/engine/trees/row_solver.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/base/counter_rng.h"
#include "core/engine/trees/sparse_row.h"

namespace dslide {
namespace {

// Passes end when no step is larger. Closer brings no accuracy, only time.
constexpr float kTolerance = 0.3f;
// A point that is so far on its right side leaves the passes until the others have settled.
constexpr float kShrinkAbove = 5 * kTolerance;

constexpr DualRowSet RowAt(size_t row) { return static_cast<DualRowSet>(1u << row); }

// Calls `visit` with each row of the set.
template <typename Visit>
void ForEachRow(DualRowSet rows, const Visit& visit) {
  for (uint32_t left = rows; left != 0; left &= left - 1) {
    visit(static_cast<size_t>(std::countr_zero(left)));
  }
}

}  // namespace

RowSolver::RowSolver(PointViews points, absl::Span<const float> squared_lengths, int64_t features,
                     RowSolverOptions options)
    : options_(options),
      diagonal_(static_cast<float>(0.5 / options.cost)),
      points_(points, squared_lengths, features) {}

void RowSolver::SetPoints(absl::Span<const uint32_t> all, uint64_t key) {
  points_.Gather(all, diagonal_);
  key_ = key;
  num_orders_ = 0;
}

void RowSolver::Prepare(absl::Span<const absl::Span<const uint32_t>> positives) {
  const size_t samples = points_.samples().size();
  const auto all = static_cast<DualRowSet>((1u << positives.size()) - 1);
  weights_.assign(points_.features().size(), DualLine());
  bias_ = DualLine();
  alphas_.assign(samples, DualLine());
  active_.assign(samples, all);
  positive_.assign(samples, 0);
  for (size_t row = 0; row < positives.size(); ++row) {
    for (const uint32_t id : positives[row]) positive_[points_.PlaceOf(id)] |= RowAt(row);
  }
}

absl::Span<const uint32_t> RowSolver::OrderOf(int64_t pass) {
  const auto at = static_cast<size_t>(pass);
  for (; num_orders_ <= at; ++num_orders_) {
    if (orders_.size() <= num_orders_) orders_.emplace_back();
    std::vector<uint32_t>& order = orders_[num_orders_];
    order.resize(points_.samples().size());
    std::iota(order.begin(), order.end(), 0u);
    CounterRng rng(DeriveKey(key_, num_orders_));
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.NextBelow(i)]);
  }
  return orders_[at];
}

DualRowSet RowSolver::Settled(DualRowSet live, const DualLine& largest) {
  DualRowSet near = 0;
  ForEachRow(live, [&](size_t row) {
    if (largest.of[row] < kTolerance) near |= RowAt(row);
  });
  if (near == 0) return 0;
  DualRowSet shrunk = 0;
  for (const DualRowSet active : active_) shrunk |= static_cast<DualRowSet>(near & ~active);
  if (shrunk != 0) {
    for (DualRowSet& active : active_) active |= shrunk;
  }
  return near & static_cast<DualRowSet>(~shrunk);
}

std::vector<std::string> RowSolver::Encode(size_t rows) {
  kept_.resize(weights_.size());
  DualKept(weights_.data(), static_cast<int64_t>(weights_.size()), options_.drop_below,
           kept_.data());
  uint32_t entries[kDualRows] = {};
  for (const DualRowSet kept : kept_) ForEachRow(kept, [&](size_t row) { ++entries[row]; });
  std::vector<SparseRowWriter> writers;
  for (size_t row = 0; row < rows; ++row) writers.emplace_back(entries[row], bias_.of[row]);
  const absl::Span<const uint32_t> features = points_.features();
  for (size_t column = 0; column < kept_.size(); ++column) {
    ForEachRow(kept_[column],
               [&](size_t row) { writers[row].Add(features[column], weights_[column].of[row]); });
  }
  std::vector<std::string> records;
  for (SparseRowWriter& writer : writers) records.push_back(std::move(writer).Take());
  return records;
}

std::vector<std::string> RowSolver::Solve(absl::Span<const absl::Span<const uint32_t>> positives) {
  Prepare(positives);
  const absl::Span<const DualSample> samples = points_.samples();
  const DualRows rows = {.weights = weights_.data(),
                         .bias = &bias_,
                         .alphas = alphas_.data(),
                         .positive = positive_.data(),
                         .active = active_.data()};
  auto live = static_cast<DualRowSet>((1u << positives.size()) - 1);
  for (int64_t pass = 0; pass < options_.passes && live != 0; ++pass) {
    DualLine largest;
    DualPass(samples.data(), OrderOf(pass).data(), static_cast<int64_t>(samples.size()), live,
             {.diagonal = diagonal_, .shrink_above = kShrinkAbove}, rows, &largest);
    live &= static_cast<DualRowSet>(~Settled(live, largest));
  }
  return Encode(positives.size());
}

}  // namespace dslide

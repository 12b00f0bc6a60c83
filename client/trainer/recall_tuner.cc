#include "client/trainer/recall_tuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/status_macros.h"

namespace dslide {
namespace {

constexpr int64_t kLeastBudget = 64;
// A search that scores one row in so many costs as much as a scan, which reads them in order.
constexpr int64_t kRowsPerScored = 8;

// The numbers of labels whose recall is measured.
constexpr int64_t kFewLabels = 10;
constexpr int64_t kSomeLabels = 100;
constexpr int64_t kMostLabels = 1024;

int64_t LabelsFor(int64_t k) {
  return k <= kFewLabels ? kFewLabels : k <= kSomeLabels ? kSomeLabels : kMostLabels;
}

// The first `count` queries.
TopKCommand FirstOf(const TopKCommand& query, int64_t count) {
  TopKCommand part = query;
  part.batch = count;
  part.hidden.resize(static_cast<size_t>(count * query.dim));
  part.fingerprints.resize(query.fingerprints.size() / static_cast<size_t>(query.batch) *
                           static_cast<size_t>(count));
  return part;
}

// The first `k` labels of each query of an answer with more.
TopKReply WithLabels(TopKReply reply, int64_t batch, int64_t k) {
  if (reply.k == k) return reply;
  for (int64_t q = 0; q < batch; ++q) {
    std::copy_n(reply.scored.rows.begin() + q * reply.k, k, reply.scored.rows.begin() + q * k);
    std::copy_n(reply.scored.logits.begin() + q * reply.k, k, reply.scored.logits.begin() + q * k);
  }
  reply.scored.rows.resize(static_cast<size_t>(batch * k), kNoRow);
  reply.scored.logits.resize(static_cast<size_t>(batch * k));
  reply.k = k;
  return reply;
}

// The share of query q's exact labels that the other answer has. 1 where there are none.
double RecallOf(const TopKReply& exact, const TopKReply& hashed, int64_t q) {
  const auto begin = hashed.scored.rows.begin() + q * hashed.k;
  int64_t wanted = 0;
  int64_t found = 0;
  for (int64_t i = q * exact.k; i < (q + 1) * exact.k; ++i) {
    const RowId row = exact.scored.rows[static_cast<size_t>(i)];
    if (row == kNoRow) break;
    ++wanted;
    found += std::find(begin, begin + hashed.k, row) != begin + hashed.k ? 1 : 0;
  }
  return wanted == 0 ? 1.0 : static_cast<double>(found) / static_cast<double>(wanted);
}

}  // namespace

RecallTuner::RecallTuner(double recall, int64_t table_rows) : recall_(recall) {
  // Each about half as much again as the one before: 64, 96, 128, 192, ...
  for (int64_t budget = kLeastBudget; budget * kRowsPerScored <= table_rows; budget *= 2) {
    budgets_.push_back(budget);
    if (budget * 3 / 2 * kRowsPerScored <= table_rows) budgets_.push_back(budget * 3 / 2);
  }
}

int64_t RecallTuner::budget(int64_t k) const {
  const auto found = by_labels_.find(LabelsFor(k));
  return found == by_labels_.end() ? 0 : found->second.budget;
}

absl::StatusOr<TopKReply> RecallTuner::TopK(TopKCommand query, const TopKScorer& ask) {
  const int64_t labels = LabelsFor(query.k);
  Learning& learning = by_labels_[labels];
  if (learning.answered >= kQueriesKept) learning = {};
  if (learning.queries < kSampleQueries && !budgets_.empty()) {
    return Learn(std::move(query), labels, learning, ask);
  }
  learning.answered += query.batch;
  query.budget = learning.budget;
  query.hashed = query.budget > 0;
  if (!query.hashed) query.fingerprints.clear();
  return ask(query);
}

absl::StatusOr<TopKReply> RecallTuner::Learn(TopKCommand query, int64_t labels, Learning& learning,
                                             const TopKScorer& ask) const {
  const int64_t k = query.k;
  const int64_t count = std::min(query.batch, kSampleQueries - learning.queries);
  query.k = labels;
  TopKCommand sample = FirstOf(query, count);
  query.hashed = false;
  query.fingerprints.clear();
  ASSIGN_OR_RETURN(TopKReply exact, ask(query));
  Learning learnt = learning;
  learnt.sums.resize(budgets_.size());
  learnt.square_sums.resize(budgets_.size());
  // Whoever has found everything with one budget finds it with a larger one.
  bool all_found = false;
  for (size_t b = 0; b < budgets_.size(); ++b) {
    TopKReply hashed;
    if (!all_found) {
      sample.budget = budgets_[b];
      ASSIGN_OR_RETURN(hashed, ask(sample));
    }
    double least = 1.0;
    for (int64_t q = 0; q < count; ++q) {
      const double recall = all_found ? 1.0 : RecallOf(exact, hashed, q);
      learnt.sums[b] += recall;
      learnt.square_sums[b] += recall * recall;
      least = std::min(least, recall);
    }
    all_found = least == 1.0;
  }
  learnt.queries += count;
  if (learnt.queries >= kSampleQueries) Decide(learnt);
  learning = std::move(learnt);
  return WithLabels(std::move(exact), query.batch, k);
}

void RecallTuner::Decide(Learning& learning) const {
  const auto queries = static_cast<double>(learning.queries);
  for (size_t b = 0; b < budgets_.size(); ++b) {
    const double mean = learning.sums[b] / queries;
    const double variance = std::max(0.0, learning.square_sums[b] / queries - mean * mean);
    if (mean - std::sqrt(variance / queries) < recall_) continue;
    learning.budget = budgets_[b];
    return;
  }
}

}  // namespace dslide

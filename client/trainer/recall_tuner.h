// How many rows hashed top-k must score for a stated recall, learnt by asking both ways.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "core/protocol/commands.h"
#include "core/protocol/replies.h"

namespace dslide {

// Scores queries over all shards and merges: ClusterClient::TopK(), or a test's own.
using TopKScorer = std::function<absl::StatusOr<TopKReply>(const TopKCommand& query)>;

// The first queries are answered exactly, and asked again by hashing with one budget after another.
// The smallest budget with which they have the recall, less an error of their mean, answers those
// that follow; where none has it, they are answered exactly, too. After kQueriesKept of them it
// learns anew: rows and questions change. What is decided is a function of the queries and answers
// alone. Recalls are those of 10, 100 or 1,024 labels, whichever a query's k does not exceed; each
// is learnt apart.
//
// Thread safety: one thread at a time.
class RecallTuner {
 public:
  static constexpr int64_t kSampleQueries = 128;
  static constexpr int64_t kQueriesKept = int64_t{1} << 16;

  // recall: (0, 1). table_rows: of the head, over all shards.
  RecallTuner(double recall, int64_t table_rows);

  // The answer to `query`, which is hashed and has no budget yet. Errors: those of `ask`; nothing
  // is learnt then.
  absl::StatusOr<TopKReply> TopK(TopKCommand query, const TopKScorer& ask);

  // Rows that are scored for each query of `k` labels; 0: it still learns, or answers exactly.
  int64_t budget(int64_t k) const;

 private:
  // Of the queries of one number of labels.
  struct Learning {
    std::vector<double> sums;         // [budgets] of their recalls
    std::vector<double> square_sums;  // [budgets]
    int64_t queries = 0;              // learnt from
    int64_t budget = 0;               // decided once queries are enough; 0: every row
    int64_t answered = 0;             // since then
  };

  // The reply of an exact query, whose first queries are learnt from.
  absl::StatusOr<TopKReply> Learn(TopKCommand query, int64_t labels, Learning& learning,
                                  const TopKScorer& ask) const;
  void Decide(Learning& learning) const;

  const double recall_;
  std::vector<int64_t> budgets_;  // ascending
  std::map<int64_t, Learning> by_labels_;
};

}  // namespace dslide

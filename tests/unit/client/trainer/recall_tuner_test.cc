#include "client/trainer/recall_tuner.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kTunedRows = 100000;

// Exactly rows 0, 1, 2, ...; hashed the first of them up to budget / rows_per_label.
class FakeShards {
 public:
  explicit FakeShards(int64_t rows_per_label) : rows_per_label_(rows_per_label) {}

  TopKScorer scorer() {
    return [this](const TopKCommand& query) -> absl::StatusOr<TopKReply> {
      asked.push_back(query);
      if (!error.ok()) return error;
      TopKReply reply;
      reply.k = query.k;
      reply.scored.exact = !query.hashed;
      const int64_t found = query.hashed ? query.budget / rows_per_label_ : query.k;
      for (int64_t q = 0; q < query.batch; ++q) {
        for (int64_t i = 0; i < query.k; ++i) {
          reply.scored.rows.emplace_back(static_cast<uint32_t>(i < found ? i : 1000 + i));
          reply.scored.logits.push_back(static_cast<float>(-i));
        }
      }
      return reply;
    };
  }

  std::vector<TopKCommand> asked;
  absl::Status error;

 private:
  const int64_t rows_per_label_;
};

TopKCommand HashedQueries(int64_t batch, int64_t k) {
  TopKCommand query;
  query.batch = batch;
  query.dim = 2;
  query.k = k;
  query.hashed = true;
  query.hidden.resize(static_cast<size_t>(batch * 2), 1.0f);
  query.fingerprints.resize(static_cast<size_t>(batch * 3), 1);
  return query;
}

TEST(RecallTunerTest, LearnsTheLeastBudgetThatHasTheRecall) {
  FakeShards shards(100);  // all ten labels with 1,000 rows
  RecallTuner tuner(0.95, kTunedRows);
  for (int64_t i = 0; i < RecallTuner::kSampleQueries; ++i) {
    EXPECT_EQ(tuner.budget(10), 0);
    const auto reply = tuner.TopK(HashedQueries(1, 3), shards.scorer());
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_TRUE(reply->scored.exact);
    EXPECT_THAT(reply->scored.rows, ElementsAre(RowId(0), RowId(1), RowId(2)));
    EXPECT_THAT(reply->scored.logits, ElementsAre(0.0f, -1.0f, -2.0f));
  }
  EXPECT_EQ(tuner.budget(10), 1024);
  shards.asked.clear();
  const auto reply = tuner.TopK(HashedQueries(5, 3), shards.scorer());
  ASSERT_TRUE(reply.ok());
  EXPECT_FALSE(reply->scored.exact);
  ASSERT_EQ(shards.asked.size(), 1);
  EXPECT_EQ(shards.asked[0].budget, 1024);
  EXPECT_EQ(shards.asked[0].k, 3);
}

TEST(RecallTunerTest, ABatchTeachesWithNoMoreQueriesThanAreNeeded) {
  FakeShards shards(100);
  RecallTuner tuner(0.95, kTunedRows);
  const auto reply = tuner.TopK(HashedQueries(1000, 10), shards.scorer());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->scored.rows.size(), 10000);
  EXPECT_EQ(shards.asked.front().batch, 1000);
  EXPECT_FALSE(shards.asked.front().hashed);
  for (size_t i = 1; i < shards.asked.size(); ++i) {
    EXPECT_EQ(shards.asked[i].batch, RecallTuner::kSampleQueries);
    EXPECT_EQ(shards.asked[i].fingerprints.size(), RecallTuner::kSampleQueries * 3);
    EXPECT_EQ(shards.asked[i].hidden.size(), RecallTuner::kSampleQueries * 2);
  }
  EXPECT_EQ(tuner.budget(10), 1024);
}

TEST(RecallTunerTest, WhereNoBudgetHasTheRecallEveryRowIsScored) {
  FakeShards shards(100000);
  RecallTuner tuner(0.95, kTunedRows);
  ASSERT_TRUE(tuner.TopK(HashedQueries(200, 10), shards.scorer()).ok());
  shards.asked.clear();
  const auto reply = tuner.TopK(HashedQueries(1, 10), shards.scorer());
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->scored.exact);
  ASSERT_EQ(shards.asked.size(), 1);
  EXPECT_FALSE(shards.asked[0].hashed);
  EXPECT_TRUE(shards.asked[0].fingerprints.empty());
}

TEST(RecallTunerTest, NumbersOfLabelsAreLearntApart) {
  FakeShards shards(100);
  RecallTuner tuner(0.95, kTunedRows);
  ASSERT_TRUE(tuner.TopK(HashedQueries(128, 10), shards.scorer()).ok());
  EXPECT_EQ(tuner.budget(1), 1024);
  EXPECT_EQ(tuner.budget(11), 0);
  ASSERT_TRUE(tuner.TopK(HashedQueries(128, 11), shards.scorer()).ok());
  EXPECT_EQ(tuner.budget(100), 12288);
  EXPECT_EQ(tuner.budget(10), 1024);
}

TEST(RecallTunerTest, LearnsAnewAfterMany) {
  FakeShards shards(100);
  RecallTuner tuner(0.95, kTunedRows);
  ASSERT_TRUE(tuner.TopK(HashedQueries(128, 10), shards.scorer()).ok());
  TopKCommand many = HashedQueries(1, 10);
  many.batch = RecallTuner::kQueriesKept;
  many.fingerprints.resize(static_cast<size_t>(many.batch * 3));
  ASSERT_TRUE(tuner.TopK(many, shards.scorer()).ok());
  EXPECT_TRUE(tuner.TopK(HashedQueries(1, 10), shards.scorer())->scored.exact);
}

TEST(RecallTunerTest, AnErrorTeachesNothing) {
  FakeShards shards(100);
  RecallTuner tuner(0.95, kTunedRows);
  shards.error = absl::UnavailableError("away");
  EXPECT_TRUE(absl::IsUnavailable(tuner.TopK(HashedQueries(128, 10), shards.scorer()).status()));
  shards.error = absl::OkStatus();
  EXPECT_TRUE(tuner.TopK(HashedQueries(128, 10), shards.scorer())->scored.exact);
  EXPECT_EQ(tuner.budget(10), 1024);
}

TEST(RecallTunerTest, SmallTablesAreScoredWhole) {
  FakeShards shards(1);
  RecallTuner tuner(0.95, 500);
  const auto reply = tuner.TopK(HashedQueries(1, 10), shards.scorer());
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->scored.exact);
  EXPECT_EQ(shards.asked.size(), 1);
}

}  // namespace
}  // namespace dslide

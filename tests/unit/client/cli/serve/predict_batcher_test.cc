#include "client/cli/serve/predict_batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "absl/synchronization/notification.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"
#include "tests/unit/patience.h"

namespace dslide::cli {
namespace {

using ::testing::ElementsAre;

// What became of one job.
struct BatchedAnswer {
  absl::Notification ready;
  absl::StatusOr<std::vector<Prediction>> answer;

  const absl::StatusOr<std::vector<Prediction>>& Wait() {
    EXPECT_TRUE(ready.WaitForNotificationWithTimeout(kPatience));
    return answer;
  }
};

// Ranks by saying a query's first feature, and its number in the batch as the second best. Blocks
// while it is told to.
class PredictBatcherTest : public ::testing::Test {
 protected:
  std::unique_ptr<PredictBatcher> Start(BatcherOptions options) {
    return std::make_unique<PredictBatcher>(
        options,
        [this](absl::Span<const RankQuery* const> queries, RankOptions rank,
               absl::Duration) -> absl::StatusOr<std::vector<Prediction>> {
          const absl::MutexLock lock(&mu_);
          sizes_.push_back(queries.size());
          mu_.Await(absl::Condition(&open_));
          std::vector<Prediction> all;
          for (const RankQuery* query : queries) {
            if (!query->hidden.empty()) {
              all.push_back({.labels = {RowId(77)}, .logits = {query->hidden[0]}});
              continue;
            }
            if (query->features[0] == RowId(13)) return absl::InvalidArgumentError("unlucky");
            Prediction one{.labels = {query->features[0], RowId(static_cast<uint32_t>(all.size()))},
                           .logits = {2, 1}};
            one.exact = !rank.hashed;
            all.push_back(one);
          }
          return all;
        },
        metrics_);
  }

  RankJob Job(uint32_t feature, BatchedAnswer& answer, int64_t k = 2) {
    RankJob job;
    job.queries = {{.features = {RowId(feature)}, .values = {1}}};
    job.options.k = k;
    job.deadline = absl::InfiniteDuration();
    job.done = [&answer](absl::StatusOr<std::vector<Prediction>> got) {
      answer.answer = std::move(got);
      answer.ready.Notify();
    };
    return job;
  }

  void SetOpen(bool open) {
    const absl::MutexLock lock(&mu_);
    open_ = open;
  }
  void AwaitBatches(size_t count) {
    const absl::MutexLock lock(&mu_);
    const auto begun = [&] { return sizes_.size() >= count; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&begun), kPatience));
  }
  std::vector<size_t> sizes() {
    const absl::MutexLock lock(&mu_);
    return sizes_;
  }

  Metrics metrics_;
  absl::Mutex mu_;
  bool open_ = true;
  std::vector<size_t> sizes_;
};

TEST_F(PredictBatcherTest, WhatComesMeanwhileIsRankedTogether) {
  SetOpen(false);
  auto batcher = Start({.max_batch = 3});
  BatchedAnswer answers[5];
  batcher->Submit(Job(1, answers[0]));
  AwaitBatches(1);
  for (uint32_t i = 1; i < 5; ++i) batcher->Submit(Job(i + 1, answers[i], /*k=*/1));
  SetOpen(true);
  for (uint32_t i = 0; i < 5; ++i) {
    const auto& answer = answers[i].Wait();
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->size(), 1u);
    EXPECT_EQ((*answer)[0].labels[0], RowId(i + 1)) << "each its own";
    EXPECT_EQ((*answer)[0].labels.size(), i == 0 ? 2u : 1u) << "and as many as it asked for";
  }
  EXPECT_THAT(sizes(), ElementsAre(1, 3, 1));
}

TEST_F(PredictBatcherTest, KindsAreRankedApart) {
  SetOpen(false);
  auto batcher = Start({});
  BatchedAnswer first, exact, hashed, hidden;
  batcher->Submit(Job(1, first));
  AwaitBatches(1);
  batcher->Submit(Job(2, exact));
  RankJob among = Job(3, hashed);
  among.options.hashed = true;
  batcher->Submit(std::move(among));
  RankJob vector = Job(0, hidden);
  vector.queries = {{.hidden = {0.5f}}};
  batcher->Submit(std::move(vector));
  SetOpen(true);
  EXPECT_TRUE((*exact.Wait())[0].exact);
  EXPECT_FALSE((*hashed.Wait())[0].exact);
  EXPECT_EQ((*hidden.Wait())[0].logits[0], 0.5f);
  EXPECT_THAT(sizes(), ElementsAre(1, 1, 1, 1));
}

TEST_F(PredictBatcherTest, NobodyFailsForAnothersFault) {
  SetOpen(false);
  auto batcher = Start({});
  BatchedAnswer first, good, bad;
  batcher->Submit(Job(1, first));
  AwaitBatches(1);
  batcher->Submit(Job(2, good));
  batcher->Submit(Job(13, bad));
  SetOpen(true);
  EXPECT_TRUE(good.Wait().ok());
  EXPECT_EQ(bad.Wait().status(), absl::InvalidArgumentError("unlucky"));
}

TEST_F(PredictBatcherTest, WhoIsTooLateIsNotRanked) {
  SetOpen(false);
  auto batcher = Start({});
  BatchedAnswer first, late, gone;
  batcher->Submit(Job(1, first));
  AwaitBatches(1);
  RankJob job = Job(2, late);
  job.deadline = batcher->clock().Now();
  batcher->Submit(std::move(job));
  job = Job(3, gone);
  job.cancelled = [] { return true; };
  batcher->Submit(std::move(job));
  SetOpen(true);
  EXPECT_EQ(late.Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(gone.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(sizes(), ElementsAre(1));
}

TEST_F(PredictBatcherTest, AFullQueueSaysWhenToComeAgain) {
  SetOpen(false);
  auto batcher = Start({.max_queue = 1});
  BatchedAnswer first, waits, refused;
  batcher->Submit(Job(1, first));
  AwaitBatches(1);
  batcher->Submit(Job(2, waits));
  batcher->Submit(Job(3, refused));
  ASSERT_TRUE(refused.ready.HasBeenNotified()) << "at once";
  EXPECT_EQ(refused.answer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused.answer.status()), reason::kQueueFull);
  EXPECT_GT(RetryAfterMs(refused.answer.status()), 0);
  SetOpen(true);
  EXPECT_TRUE(waits.Wait().ok());
}

TEST_F(PredictBatcherTest, WhatIsQueuedIsStillAnsweredWhenItStops) {
  SetOpen(false);
  auto batcher = Start({.max_batch = 1});
  BatchedAnswer first, second, after;
  batcher->Submit(Job(1, first));
  AwaitBatches(1);
  batcher->Submit(Job(2, second));
  SetOpen(true);
  batcher->Stop();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
  batcher->Submit(Job(3, after));
  EXPECT_EQ(ReasonOf(after.Wait().status()), reason::kShuttingDown);
}

// With the longest wait that there is: only its own batch may be waited for.
TEST_F(PredictBatcherTest, NobodyWaitsWhileNothingRuns) {
  auto batcher = Start({.max_batch = 2, .max_wait = absl::InfiniteDuration()});
  BatchedAnswer alone;
  batcher->Submit(Job(1, alone));
  EXPECT_TRUE(alone.Wait().ok());
}

}  // namespace
}  // namespace dslide::cli

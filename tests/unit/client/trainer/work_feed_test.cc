#include "client/trainer/work_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/trainer/trainer.h"
#include "core/engine/data/sparse_dataset.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

std::string TwentyPoints() {
  std::string text = "20 20 4\n";
  for (int i = 0; i < 20; ++i) absl::StrAppend(&text, i % 4, " ", i, ":1\n");
  return text;
}

// Gives the scripted answers one after the other, and remembers the requests.
class Script {
 public:
  using Answer = absl::StatusOr<Work>;

  void Then(Answer answer) { answers_.push_back(std::move(answer)); }

  Answer Acquire(const WorkRequest& request) {
    absl::MutexLock lock(&mu_);
    requests_.push_back(request);
    if (!request.want_work) return Work(WaitForWork{});
    if (next_ < answers_.size()) return answers_[next_++];
    return Work(NoMoreWork{});
  }

  std::vector<WorkRequest> Wanting() {
    absl::MutexLock lock(&mu_);
    std::vector<WorkRequest> wanting;
    for (const WorkRequest& request : requests_) {
      if (request.want_work) wanting.push_back(request);
    }
    return wanting;
  }
  // What all requests reported.
  std::vector<LeaseReport> Finished() {
    absl::MutexLock lock(&mu_);
    std::vector<LeaseReport> all;
    for (const WorkRequest& request : requests_) {
      all.insert(all.end(), request.finished.begin(), request.finished.end());
    }
    return all;
  }
  int64_t Renewals() {
    absl::MutexLock lock(&mu_);
    return std::count_if(requests_.begin(), requests_.end(),
                         [](const WorkRequest& r) { return !r.want_work; });
  }

 private:
  absl::Mutex mu_;
  std::vector<Answer> answers_;
  size_t next_ = 0;
  std::vector<WorkRequest> requests_;
};

class WorkFeedTest : public ::testing::Test {
 protected:
  WorkFeedTest()
      : data_(*SparseDataset::FromText("data", TwentyPoints(), {})),
        split_(*TrainingSplit::Create(20, 1, 0.0, 0)),
        network_(*Network::Create(Spec())) {
    const std::vector<double> weights = {1.0};
    preparer_ = *BatchPreparer::Create(network_, *SlotMap::Deal(16, weights),
                                       *SlotMap::Deal(4, weights), {});
    options_.job = "j";
    options_.batch_size = 4;
    options_.renew_interval = absl::Seconds(60);
    options_.patience = kPatience;
  }

  static ModelSpec Spec() {
    ModelSpec spec;
    spec.name = "m";
    TableSpec input;
    input.name = "in";
    input.rows = 20;
    input.dim = 4;
    input.num_slots = 16;
    TableSpec head;
    head.name = "out";
    head.role = TableRole::kHead;
    head.rows = 4;
    head.dim = 4;
    head.num_slots = 4;
    head.head.max_active = 0;
    spec.tables = {input, head};
    return spec;
  }

  std::unique_ptr<WorkFeed> Start() {
    return std::make_unique<WorkFeed>(
        options_, *data_, split_, preparer_.get(),
        [this](const WorkRequest& request) { return script_.Acquire(request); },
        [this](const std::string& warning) { warnings_.push_back(warning); },
        [this] {
          ++rejoined_;
          return absl::OkStatus();
        });
  }

  // "b4" a batch of 4, "e7" the end of chunk 7, "d" drain, "v" evaluation, "s" a stage, "n" no
  // more, "l" limit,
  // "-" nothing yet, "x" error.
  static std::string Name(const FeedItem& item) {
    if (const auto* batch = std::get_if<PreparedBatch>(&item)) {
      return absl::StrCat("b", batch->samples());
    }
    if (const auto* end = std::get_if<ChunkEnd>(&item)) return absl::StrCat("e", end->lease);
    const char* names[] = {"", "", "d", "v", "s", "n", "l", "-", "x"};
    return names[item.index()];
  }

  // All items to the end; chunks are reported as soon as they end, evaluations at once.
  std::vector<std::string> Drain(WorkFeed& feed) {
    std::vector<std::string> names;
    for (;;) {
      const FeedItem item = feed.Next();
      names.push_back(Name(item));
      if (const auto* batch = std::get_if<PreparedBatch>(&item)) {
        points_.insert(points_.end(), batch->points.begin(), batch->points.end());
        job_steps_.push_back(batch->job_step.value());
      }
      if (const auto* end = std::get_if<ChunkEnd>(&item)) feed.Finish({end->lease, 1.5, 4, 0});
      if (const auto* work = std::get_if<EvaluationWork>(&item)) {
        feed.Finish({work->lease, 0, 0, 0.5});
      }
      if (const auto* stage = std::get_if<StageWork>(&item)) feed.Finish({.lease = stage->lease});
      if (names.back() == "n" || names.back() == "l" || names.back() == "x") return names;
    }
  }

  std::unique_ptr<SparseDataset> data_;
  TrainingSplit split_;
  Network network_;
  std::unique_ptr<BatchPreparer> preparer_;
  WorkFeedOptions options_;
  Script script_;
  std::vector<std::string> warnings_;
  std::vector<int64_t> points_;
  std::vector<int64_t> job_steps_;
  int rejoined_ = 0;
};

TEST_F(WorkFeedTest, ChunksBecomeBatchesAndAnEpochEndsWithADrain) {
  script_.Then(Work(ChunkWork{7, 0, 0, 10}));
  script_.Then(Work(ChunkWork{8, 0, 10, 10}));
  script_.Then(Work(WaitForWork{absl::Milliseconds(1)}));
  script_.Then(Work(EvaluationWork{9, 0, -1}));
  const auto feed = Start();
  EXPECT_THAT(Drain(*feed),
              ElementsAre("b4", "b4", "b2", "e7", "b4", "b4", "b2", "e8", "d", "v", "n"));
  std::sort(points_.begin(), points_.end());
  EXPECT_EQ(points_, AllPoints(20));
  EXPECT_THAT(script_.Wanting(), SizeIs(5));
  // A lease is named as held until it is reported, once. Which request carries what is timing.
  const WorkRequest second = script_.Wanting()[1];
  EXPECT_EQ(second.held.size() + second.finished.size(), 1u);
  const std::vector<LeaseReport> finished = script_.Finished();
  ASSERT_THAT(finished, SizeIs(3));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(finished[i].lease, 7 + i);
  EXPECT_EQ(finished[2].metric, 0.5);
}

TEST_F(WorkFeedTest, AStepsNumberInTheJobIsAFunctionOfItsLease) {
  // 20 points an epoch, 4 a step; whoever has a chunk, and in whatever order.
  script_.Then(Work(ChunkWork{1, 2, 8, 8}));
  script_.Then(Work(ChunkWork{2, 0, 0, 4}));
  Drain(*Start());
  EXPECT_THAT(job_steps_, ElementsAre(13, 14, 1));
}

TEST_F(WorkFeedTest, StagesAreDoneBetweenDrains) {
  script_.Then(Work(StageWork{.lease = 3}));
  script_.Then(Work(ChunkWork{4, 0, 0, 4}));
  script_.Then(Work(StageWork{.lease = 5, .stage = JobStage::kCompletion}));
  EXPECT_THAT(Drain(*Start()), ElementsAre("s", "b4", "e4", "d", "s", "n"));
  std::vector<uint64_t> leases;
  for (const LeaseReport& lease : script_.Finished()) leases.push_back(lease.lease);
  EXPECT_THAT(leases, ElementsAre(3, 4, 5));
}

TEST_F(WorkFeedTest, TheNextLeaseIsAskedForWhileBatchesAreStillQueued) {
  script_.Then(Work(ChunkWork{1, 0, 0, 8}));
  script_.Then(Work(ChunkWork{2, 0, 8, 8}));
  const auto feed = Start();
  (void)feed->Next();
  EXPECT_TRUE(Eventually([&] { return script_.Wanting().size() >= 2; }));
}

TEST_F(WorkFeedTest, StopsAtTheStepLimitWithinAChunk) {
  script_.Then(Work(ChunkWork{1, 0, 0, 20}));
  options_.max_steps = 3;
  EXPECT_THAT(Drain(*Start()), ElementsAre("b4", "b4", "b4", "l"));
}

TEST_F(WorkFeedTest, AStepLimitAtAChunksEndReportsTheChunk) {
  script_.Then(Work(ChunkWork{1, 0, 0, 8}));
  options_.max_steps = 2;
  EXPECT_THAT(Drain(*Start()), ElementsAre("b4", "b4", "e1", "l"));
}

TEST_F(WorkFeedTest, OutlivesACoordinatorThatIsAwayForAMoment) {
  script_.Then(Work(ChunkWork{1, 0, 0, 4}));
  script_.Then(absl::UnavailableError("gone"));
  script_.Then(Work(ChunkWork{2, 0, 4, 4}));
  EXPECT_THAT(Drain(*Start()), ElementsAre("b4", "e1", "d", "b4", "e2", "d", "n"));
  EXPECT_THAT(warnings_, SizeIs(2));
}

TEST_F(WorkFeedTest, GivesUpWhenItsPatienceIsOver) {
  options_.patience = absl::Milliseconds(250);
  for (int i = 0; i < 50; ++i) script_.Then(absl::UnavailableError("gone"));
  const auto feed = Start();
  const FeedItem item = feed->Next();
  ASSERT_EQ(Name(item), "x");
  EXPECT_EQ(std::get<absl::Status>(item).code(), absl::StatusCode::kUnavailable);
}

// So that whoever waits can be asked to stop while the coordinator is away.
TEST_F(WorkFeedTest, AWaitWithoutAnItemEnds) {
  for (int i = 0; i < 50; ++i) script_.Then(absl::UnavailableError("gone"));
  const auto feed = Start();
  EXPECT_EQ(Name(feed->NextWithin(absl::Milliseconds(1))), "-");
}

TEST_F(WorkFeedTest, JoinsAgainWhenTheCoordinatorForgotTheJob) {
  script_.Then(Work(ChunkWork{1, 0, 0, 4}));
  script_.Then(absl::NotFoundError("no such job"));
  script_.Then(Work(ChunkWork{1, 0, 0, 4}));
  EXPECT_THAT(Drain(*Start()), ElementsAre("b4", "e1", "d", "b4", "e1", "d", "n"));
  EXPECT_EQ(rejoined_, 1);
}

TEST_F(WorkFeedTest, AnErrorOfTheCoordinatorEndsTheFeed) {
  script_.Then(absl::FailedPreconditionError("no"));
  EXPECT_THAT(Drain(*Start()), ElementsAre("x"));
}

TEST_F(WorkFeedTest, RenewsWhatIsHeldWhileTheConsumerIsSlow) {
  options_.renew_interval = absl::Milliseconds(5);
  options_.queued_items = 1;
  script_.Then(Work(ChunkWork{1, 0, 0, 20}));
  const auto feed = Start();
  EXPECT_TRUE(Eventually([&] { return script_.Renewals() >= 3; }));
}

TEST_F(WorkFeedTest, ALeaseOutsideTheDataIsAnError) {
  script_.Then(Work(ChunkWork{1, 0, 15, 6}));
  EXPECT_THAT(Drain(*Start()), ElementsAre("x"));
}

}  // namespace
}  // namespace dslide

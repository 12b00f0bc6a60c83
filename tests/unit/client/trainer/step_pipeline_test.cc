#include "client/trainer/step_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kDim = 4;

ModelSpec Spec(int64_t dense_layers) {
  ModelSpec spec;
  spec.name = "m";
  TableSpec input;
  input.name = "in";
  input.rows = 8;
  input.dim = kDim;
  input.num_slots = 8;
  spec.tables.push_back(input);
  for (int64_t i = 0; i < dense_layers; ++i) {
    TableSpec dense;
    dense.name = absl::StrCat("dense-", i);
    dense.role = TableRole::kDense;
    dense.rows = kDim;
    dense.dim = kDim;
    dense.num_slots = 4;
    spec.tables.push_back(dense);
  }
  TableSpec head;
  head.name = "out";
  head.role = TableRole::kHead;
  head.rows = 6;
  head.dim = kDim;
  head.num_slots = 6;
  head.head.max_active = 0;
  spec.tables.push_back(head);
  return spec;
}

// Answers in order, after random pauses, from a thread of its own.
class FakeShard final : public StepChannel {
 public:
  explicit FakeShard(uint64_t pause_seed)
      : rng_(DeriveKey(1, pause_seed)), pauses_(pause_seed != 0), thread_([this] { Run(); }) {}
  ~FakeShard() override {
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
    }
    thread_.join();
  }

  std::shared_ptr<PendingStep> Send(int64_t step, int64_t first_open_step, StepOp op) override {
    auto pending = std::make_shared<PendingStep>(absl::Now() + kPatience,
                                                 absl::DeadlineExceededError("too late"));
    absl::MutexLock lock(&mu_);
    log_.push_back(absl::StrCat(step, "/", first_open_step, " ", Name(op)));
    const double rate = std::visit([](const auto& sent) { return RateOf(sent); }, op);
    if (rate >= 0) rates_.push_back(rate);
    queue_.push_back({step, std::move(op), pending});
    return pending;
  }

  std::vector<std::string> Log() {
    absl::MutexLock lock(&mu_);
    return log_;
  }
  // Of updates, in the order of sending.
  std::vector<double> Rates() {
    absl::MutexLock lock(&mu_);
    return rates_;
  }
  // This shard holds every other row of the dense layer, from this one on. Before the first step.
  void set_first_dense_row(uint32_t row) { first_dense_row_ = row; }
  // By each shard, of the embedding. Before the first step.
  void set_rejected_rows(int64_t rows) { rejected_rows_ = rows; }

  void FailHeadForwardOf(int64_t step) {
    absl::MutexLock lock(&mu_);
    fail_step_ = step;
  }

 private:
  struct Item {
    int64_t step;
    StepOp op;
    std::shared_ptr<PendingStep> pending;
  };

  // -1: it has none.
  template <typename Op>
  static double RateOf(const Op& op) {
    if constexpr (requires { op.learning_rate; }) return op.learning_rate.value_or(-1);
    return -1;
  }

  static const char* Name(const StepOp& op) {
    const char* names[] = {"embed-forward",  "head-forward", "head-backward",
                           "embed-backward", "dense-gather", "dense-scatter"};
    return names[op.index()];
  }

  void Run() {
    for (;;) {
      Item item;
      int64_t fail_step = 0;
      {
        absl::MutexLock lock(&mu_);
        const auto wake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
          return stop_ || !queue_.empty();
        };
        mu_.Await(absl::Condition(&wake));
        if (queue_.empty()) return;
        item = std::move(queue_.front());
        queue_.pop_front();
        fail_step = fail_step_;
      }
      if (pauses_) absl::SleepFor(absl::Microseconds(rng_.NextBelow(1500)));
      if (item.step == fail_step && std::holds_alternative<HeadForwardOp>(item.op)) {
        item.pending->Complete(absl::ResourceExhaustedError("no room"), Outcome::kNotApplied);
      } else {
        item.pending->Complete(Answer(item.op), Outcome::kApplied);
      }
    }
  }

  ReplyBody Answer(const StepOp& op) {
    if (const auto* forward = std::get_if<EmbedForwardOp>(&op)) {
      batch_ = static_cast<int64_t>(forward->offsets.size()) - 1;
      EmbedForwardReply reply;
      reply.partial = {batch_, kDim, std::vector<float>(static_cast<size_t>(batch_ * kDim), 0.5f)};
      return reply;
    }
    if (const auto* head = std::get_if<HeadForwardOp>(&op)) {
      const auto batch = static_cast<size_t>(head->label_offsets.size()) - 1;
      HeadForwardReply reply;
      reply.output.max_logits.assign(batch, 0.0f);
      reply.output.exp_sums.assign(batch, 3.0f);
      reply.output.label_logits.assign(head->labels.size(), 0.0f);
      reply.output.active_pairs = static_cast<int64_t>(3 * batch);
      reply.output.distinct_rows = 3;
      return reply;
    }
    if (std::holds_alternative<HeadBackwardOp>(op)) {
      HeadBackwardReply reply;
      const auto size = std::get<HeadBackwardOp>(op).log_partitions.size() * kDim;
      reply.hidden_gradient = {static_cast<int64_t>(size) / kDim, kDim,
                               std::vector<float>(size, 0.25f)};
      return reply;
    }
    if (std::holds_alternative<DenseGatherOp>(op)) {
      DenseGatherReply reply;
      for (uint32_t row = first_dense_row_; row < kDim; row += 2) reply.rows.rows.emplace_back(row);
      reply.rows.dim = kDim;
      reply.rows.values.assign(reply.rows.rows.size() * kDim, 0.1f);
      reply.rows.biases.assign(reply.rows.rows.size(), 0.0f);
      return reply;
    }
    if (std::holds_alternative<DenseScatterOp>(op)) return DenseScatterReply{};
    return EmbedBackwardReply{1, rejected_rows_};
  }

  CounterRng rng_;
  const bool pauses_;
  int64_t batch_ = 0;
  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  int64_t fail_step_ ABSL_GUARDED_BY(mu_) = -1;
  std::deque<Item> queue_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> log_ ABSL_GUARDED_BY(mu_);
  std::vector<double> rates_ ABSL_GUARDED_BY(mu_);

  uint32_t first_dense_row_ = 0;
  int64_t rejected_rows_ = 0;
  std::thread thread_;
};

PreparedBatch Batch(uint64_t lease, int64_t samples) {
  PreparedBatch batch;
  batch.lease = lease;
  for (int64_t i = 0; i < samples; ++i) {
    batch.points.push_back(i);
    batch.label_targets.push_back(1.0f);
  }
  for (int s = 0; s < 2; ++s) {
    EmbedForwardOp op;
    op.table = "in";
    op.offsets.assign(static_cast<size_t>(samples) + 1, 0);
    batch.inputs.push_back(op);
    RaggedSlice labels;
    labels.offsets.assign(static_cast<size_t>(samples) + 1, 0);
    if (s == 0) {
      for (size_t i = 0; i < static_cast<size_t>(samples); ++i) {
        labels.rows.push_back(RowId(1));
        labels.offsets[i + 1] = static_cast<uint32_t>(i + 1);
      }
    }
    batch.labels.push_back(labels);
  }
  return batch;
}

struct RunResult {
  absl::Status status;
  std::vector<FinishedStep> finished;
  std::vector<std::vector<std::string>> logs;
};

RunResult RunSteps(int64_t steps, int64_t in_flight, int64_t dense_layers, uint64_t pause_seed,
                   int64_t fail_step = -1, int64_t rejected_rows = 0) {
  const absl::StatusOr<Network> network = Network::Create(Spec(dense_layers));
  EXPECT_TRUE(network.ok()) << network.status();
  FakeShard a(pause_seed);
  FakeShard b(pause_seed == 0 ? 0 : pause_seed + 1);
  b.set_first_dense_row(1);
  a.FailHeadForwardOf(fail_step);
  a.set_rejected_rows(rejected_rows);
  b.set_rejected_rows(rejected_rows);
  RunResult result;
  int64_t next_step = 1;
  PipelineOptions options;
  options.in_flight_steps = in_flight;
  StepPipeline pipeline(*network, {&a, &b}, options, &next_step, SteadyClock(),
                        [&](const FinishedStep& step) { result.finished.push_back(step); });
  for (int64_t i = 0; i < steps && result.status.ok(); ++i) {
    result.status = pipeline.Submit(Batch(static_cast<uint64_t>(i / 2), 3));
  }
  if (result.status.ok()) result.status = pipeline.Drain();
  result.logs = {a.Log(), b.Log()};
  return result;
}

TEST(StepPipelineTest, TheOrderOfCommandsDoesNotDependOnTiming) {
  const RunResult quiet = RunSteps(12, 3, 1, /*pause_seed=*/0);
  ASSERT_TRUE(quiet.status.ok()) << quiet.status;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const RunResult noisy = RunSteps(12, 3, 1, seed);
    ASSERT_TRUE(noisy.status.ok()) << noisy.status;
    EXPECT_EQ(noisy.logs, quiet.logs) << "seed " << seed;
  }
}

TEST(StepPipelineTest, OneStepAtATimeIsTheTextbookOrder) {
  const RunResult run = RunSteps(2, 1, 0, 0);
  EXPECT_THAT(run.logs[0],
              ElementsAre("1/1 embed-forward", "1/1 head-forward", "1/1 head-backward",
                          "1/1 embed-backward", "2/2 embed-forward", "2/2 head-forward",
                          "2/2 head-backward", "2/2 embed-backward"));
  EXPECT_EQ(run.logs[0], run.logs[1]);
}

TEST(StepPipelineTest, AStepMostOfWhoseUpdatesAreLeftOutIsAnError) {
  // Eight rows are updated: six of the head, two of the embedding.
  const RunResult few = RunSteps(2, 1, 0, 0, -1, /*rejected_rows=*/1);
  ASSERT_TRUE(few.status.ok()) << few.status;
  EXPECT_EQ(few.finished[0].rejected_rows, 2);
  const RunResult most = RunSteps(2, 1, 0, 0, -1, /*rejected_rows=*/2);
  EXPECT_EQ(most.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(most.status), reason::kOverMagnitude);
}

TEST(StepPipelineTest, TwoStepsInterleaveAndOverlapByOne) {
  const RunResult run = RunSteps(3, 2, 0, 0);
  EXPECT_THAT(run.logs[0],
              ElementsAre("1/1 embed-forward", "2/1 embed-forward", "1/1 head-forward",
                          "2/1 head-forward", "1/1 head-backward", "2/1 head-backward",
                          "1/1 embed-backward", "3/2 embed-forward", "2/2 embed-backward",
                          "3/3 head-forward", "3/3 head-backward", "3/3 embed-backward"));
}

TEST(StepPipelineTest, EveryStepFinishesOnceAndInOrder) {
  const RunResult run = RunSteps(9, 4, 2, 7);
  ASSERT_TRUE(run.status.ok()) << run.status;
  ASSERT_EQ(run.finished.size(), 9u);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(run.finished[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(run.finished[i].lease, i / 2);
    EXPECT_EQ(run.finished[i].samples, 3);
    EXPECT_EQ(run.finished[i].active_pairs, 18);
    EXPECT_NEAR(run.finished[i].loss_sum, 3 * std::log(6.0), 1e-9);
  }
}

TEST(StepPipelineTest, AnErrorNamesShardStepAndExchange) {
  const RunResult run = RunSteps(9, 2, 0, 0, /*fail_step=*/4);
  EXPECT_EQ(run.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(run.status.message()),
              HasSubstr("shard 0, head forward of step 4: no room"));
}

TEST(StepPipelineTest, UpdatesHaveTheRatesOfTheJobsStep) {
  ModelSpec spec = Spec(/*dense_layers=*/1);
  for (size_t i = 0; i < spec.tables.size(); ++i) {
    spec.tables[i].optimizer.learning_rate = static_cast<double>(i + 1);
    spec.tables[i].optimizer.schedule = {.kind = ScheduleKind::kLinear, .decay_steps = 8};
  }
  const absl::StatusOr<Network> network = Network::Create(spec);
  ASSERT_TRUE(network.ok()) << network.status();
  FakeShard a(0);
  FakeShard b(0);
  b.set_first_dense_row(1);
  int64_t next_step = 1;
  StepPipeline pipeline(*network, {&a, &b}, {}, &next_step, SteadyClock(),
                        [](const FinishedStep&) {});
  PreparedBatch batch = Batch(1, 3);
  batch.job_step = Step(6);  // a quarter of the line is left
  ASSERT_TRUE(pipeline.Submit(std::move(batch)).ok());
  ASSERT_TRUE(pipeline.Drain().ok());
  EXPECT_THAT(a.Rates(), ElementsAre(0.75, 0.5, 0.25));  // head, dense, embedding
}

TEST(StepPipelineTest, AnEmptyBatchIsNoStep) {
  const absl::StatusOr<Network> network = Network::Create(Spec(0));
  FakeShard a(0);
  FakeShard b(0);
  int64_t next_step = 1;
  StepPipeline pipeline(*network, {&a, &b}, {}, &next_step, SteadyClock(),
                        [](const FinishedStep&) { FAIL(); });
  EXPECT_TRUE(pipeline.Submit(PreparedBatch()).ok());
  EXPECT_TRUE(pipeline.Drain().ok());
  EXPECT_EQ(next_step, 1);
  EXPECT_THAT(a.Log(), IsEmpty());
}

TEST(AddPartialsTest, RefusesAnotherShape) {
  const MatrixReply good = {2, 2, {1, 2, 3, 4}};
  const MatrixReply bad = {2, 3, {1, 2, 3, 4, 5, 6}};
  const std::vector<const MatrixReply*> parts = {&good, &good};
  EXPECT_THAT(*AddPartials(parts, 2, 2), ElementsAre(2, 4, 6, 8));
  const std::vector<const MatrixReply*> mixed = {&good, &bad};
  EXPECT_EQ(AddPartials(mixed, 2, 2).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace dslide

// Checkpoints of a whole cluster, over the real services, while clients train: every shard's part
// shows the same steps of every client, and what is restored goes on like what never stopped.

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/cluster_client.h"
#include "client/trainer/trainer.h"
#include "core/base/clock.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sources/synthetic.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/engine/lsh/hash_family.h"
#include "gtest/gtest.h"
#include "services/embedded/embedded_cluster.h"
#include "services/shard/image/shard_image.h"
#include "tests/tracer/tracer.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

constexpr int64_t kShards = 3;

std::unique_ptr<ClusterClient> MustConnect(EmbeddedCluster& servers, const std::string& job) {
  ClientOptions options;
  options.job = job;
  options.timeout = kPatience;
  auto client = ClusterClient::Connect(
      servers.coordinator_address(),
      [&servers](const std::string& address) { return servers.OpenChannel(address); }, options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// One whose rows nobody changes.
ModelSpec IdleModel(int64_t rows) {
  ModelSpec spec;
  spec.name = "idle";
  TableSpec table;
  table.name = "rows";
  table.role = TableRole::kEmbedding;
  table.rows = rows;
  table.dim = 24;
  spec.tables = {table};
  return spec;
}

class ClusterCheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(::testing::TempDir(), "cluster_checkpoint.", getpid());
    std::filesystem::remove_all(dir_);
    Start();
  }
  void TearDown() override {
    client_.reset();
    servers_.reset();
    std::filesystem::remove_all(dir_);
  }
  void Start() {
    EmbeddedClusterOptions options;
    options.shards = kShards;
    options.threads_per_shard = 1;
    options.data_dir = dir_;
    auto servers = EmbeddedCluster::Start(options);
    ASSERT_TRUE(servers.ok()) << servers.status();
    servers_ = *std::move(servers);
    client_ = MustConnect(*servers_, "operator");
  }

  std::unique_ptr<Tracer> StartTracer(const std::string& model, int64_t in_flight) {
    auto tracer =
        Tracer::Start(MustConnect(*servers_, model), {.model = model, .in_flight = in_flight});
    EXPECT_TRUE(tracer.ok()) << tracer.status();
    return *std::move(tracer);
  }

  CoordinatorClient& coordinator() { return client_->coordinator(); }

  // The value of every number of the tracer's rows in a shard's part of a checkpoint; they must all
  // be equal.
  float CountIn(uint64_t checkpoint_id, int64_t shard, const std::string& model) {
    shard::ShardCore core({});
    const std::string path =
        absl::StrFormat("%s/shard-%d/images/checkpoint-%020d", dir_, shard, checkpoint_id);
    const auto loaded = shard::LoadImage(path, core);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    const RowStore& store = core.FindModel(model)->tables()[0].store();
    std::vector<float> seen;
    for (uint32_t row = 0; row < store.num_rows(); ++row) {
      for (int64_t i = 0; i < store.dim(); ++i) seen.push_back(store.Weights(LocalRow(row))[i]);
    }
    for (const float value : seen) EXPECT_EQ(value, seen[0]);
    return seen.empty() ? -1.0f : seen[0];
  }

  std::string dir_;
  std::unique_ptr<EmbeddedCluster> servers_;
  std::unique_ptr<ClusterClient> client_;
};

TEST_F(ClusterCheckpointTest, EveryShardShowsTheSameStepsOfEveryClient) {
  std::vector<std::unique_ptr<Tracer>> tracers;
  for (const int64_t in_flight : {1, 2, 4}) {
    tracers.push_back(StartTracer(absl::StrCat("tracer-", in_flight), in_flight));
  }
  constexpr int kCuts = 10;
  for (int cut = 0; cut < kCuts; ++cut) {
    const auto taken = coordinator().CreateClusterCheckpoint();
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_TRUE(taken->evicted.empty());
    for (const int64_t in_flight : {1, 2, 4}) {
      const std::string model = absl::StrCat("tracer-", in_flight);
      const float count = CountIn(taken->checkpoint_id, 0, model);
      for (int64_t shard = 1; shard < kShards; ++shard) {
        EXPECT_EQ(CountIn(taken->checkpoint_id, shard, model), count) << model << ", cut " << cut;
      }
    }
  }
  for (const auto& tracer : tracers) {
    tracer->Stop();
    EXPECT_TRUE(tracer->end().ok()) << tracer->end();
    EXPECT_GT(tracer->finished(), kCuts);
  }
  const auto kept = coordinator().ListClusterCheckpoints();
  ASSERT_TRUE(kept.ok());
  ASSERT_EQ(kept->size(), 3u);
  EXPECT_EQ(kept->front().checkpoint_id, static_cast<uint64_t>(kCuts));
}

// The same where most rows rest, so that parts are built on earlier ones.
TEST_F(ClusterCheckpointTest, IncrementsShowTheSameStepsOnEveryShard) {
  ASSERT_TRUE(client_->CreateModel(IdleModel(2000)).ok());
  const auto tracer = StartTracer("tracer", 3);
  constexpr int kCuts = 20;
  int increments = 0;
  for (int cut = 1; cut <= kCuts; ++cut) {
    const auto taken = coordinator().CreateClusterCheckpoint();
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_STREQ(taken->kind(), cut % 8 == 1 ? "full" : "incremental") << cut;
    if (taken->written_bytes() < taken->bytes()) ++increments;
    const float count = CountIn(taken->checkpoint_id, 0, "tracer");
    for (int64_t shard = 1; shard < kShards; ++shard) {
      EXPECT_EQ(CountIn(taken->checkpoint_id, shard, "tracer"), count) << "cut " << cut;
    }
  }
  EXPECT_EQ(increments, kCuts - 3);
  tracer->Stop();
  EXPECT_TRUE(tracer->end().ok()) << tracer->end();
}

// Trainers go on, and the next one is taken as if there had been none.
TEST_F(ClusterCheckpointTest, OneIsCancelledWhileAShardWrites) {
  // So many rows that they are not written before somebody has looked.
  ASSERT_TRUE(client_->CreateModel(IdleModel(300'000)).ok());
  const auto tracer = StartTracer("tracer", 2);
  ASSERT_TRUE(tracer->Await(20));
  std::thread operator_thread([&] {
    EXPECT_TRUE(Eventually([&] {
      const auto status = coordinator().GetClusterStatus();
      if (!status.ok() || status->operations.empty()) return false;
      const OperationStatus& operation = status->operations.front();
      return operation.stage == "writing" &&
             coordinator().CancelOperation(operation.operation_id).ok();
    }));
  });
  const absl::Status cancelled = coordinator().CreateClusterCheckpoint().status();
  operator_thread.join();
  EXPECT_TRUE(absl::IsCancelled(cancelled)) << cancelled;
  EXPECT_TRUE(coordinator().ListClusterCheckpoints()->empty());
  EXPECT_EQ(coordinator().GetClusterStatus()->checkpoints->failures, 0);
  ASSERT_TRUE(tracer->Await(tracer->finished() + 20));
  const auto taken = coordinator().CreateClusterCheckpoint();
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->checkpoint_id, 2u);
  EXPECT_STREQ(taken->kind(), "full");
  const float count = CountIn(taken->checkpoint_id, 0, "tracer");
  for (int64_t shard = 1; shard < kShards; ++shard) {
    EXPECT_EQ(CountIn(taken->checkpoint_id, shard, "tracer"), count);
  }
  tracer->Stop();
  EXPECT_TRUE(tracer->end().ok()) << tracer->end();
}

// Ctrl-C, and patience that is over.
TEST_F(ClusterCheckpointTest, WhoeverWaitsForOneMayStopIt) {
  ASSERT_TRUE(client_->CreateModel(IdleModel(300'000)).ok());
  const OperationWatch watch{.stop_requested = [] { return true; }};
  const absl::Status stopped =
      coordinator().CreateClusterCheckpoint(absl::Hours(1), watch).status();
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
  const absl::Status late = coordinator().CreateClusterCheckpoint(absl::Milliseconds(1)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late)) << late;
  EXPECT_TRUE(coordinator().CreateClusterCheckpoint().ok());
}

TEST_F(ClusterCheckpointTest, ARestoredClusterHoldsWhatTheCutHeld) {
  const auto tracer = StartTracer("tracer", 2);
  ASSERT_TRUE(tracer->Await(20));
  const auto taken = coordinator().CreateClusterCheckpoint();
  ASSERT_TRUE(taken.ok()) << taken.status();
  const float count = CountIn(taken->checkpoint_id, 0, "tracer");
  const int64_t before = tracer->finished();
  ASSERT_TRUE(tracer->Await(before + 20));
  const auto restored = coordinator().RestoreClusterCheckpoint(0);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->checkpoint_id, taken->checkpoint_id);
  tracer->Stop();
  // Whoever goes on as if nothing had happened is refused.
  EXPECT_TRUE(ReasonOf(tracer->end()) == "CLOSED_CLIENT") << tracer->end();
  std::vector<RowId> wanted;
  for (uint32_t row = 0; row < kTracerRows; ++row) wanted.push_back(RowId(row));
  const auto rows = client_->Gather("tracer", "count", wanted);
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (const float value : rows->values) EXPECT_EQ(value, count);
  EXPECT_EQ(coordinator().GetClusterMap()->restore_count, 1u);
}

TEST_F(ClusterCheckpointTest, AreFoundAndCheckedAfterARestart) {
  { const auto tracer = StartTracer("tracer", 1); }
  const auto taken = coordinator().CreateClusterCheckpoint();
  ASSERT_TRUE(taken.ok()) << taken.status();
  client_.reset();
  ASSERT_TRUE(servers_->Stop().ok());
  servers_.reset();
  Start();
  ASSERT_TRUE(coordinator().VerifyClusterCheckpoint(0).ok());
  const std::string file =
      absl::StrFormat("%s/shard-1/images/checkpoint-%020d/state", dir_, taken->checkpoint_id);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  const auto verified = coordinator().VerifyClusterCheckpoint(0);
  EXPECT_TRUE(absl::IsDataLoss(verified.status())) << verified.status();
  EXPECT_NE(verified.status().message().find("shard 1"), std::string::npos);
  EXPECT_TRUE(absl::IsDataLoss(coordinator().RestoreClusterCheckpoint(0).status()));
  // Nothing has changed.
  EXPECT_EQ(coordinator().GetClusterMap()->restore_count, 0u);
  EXPECT_TRUE(client_->Gather("tracer", "count", {RowId(0)}).ok());
}

// --- Training ------------------------------------------------------------------------------------

class TrainingCheckpointTest : public ClusterCheckpointTest {
 protected:
  void SetUp() override {
    ClusterCheckpointTest::SetUp();
    const std::string path = absl::StrCat(dir_, "/train.txt");
    SyntheticOptions synthetic;
    synthetic.points = 4000;
    synthetic.features = 500;
    synthetic.labels = 600;
    synthetic.features_per_point = 10;
    ASSERT_TRUE(GenerateSynthetic(synthetic, path).ok());
    auto data = SparseDataset::Open(path, {});
    ASSERT_TRUE(data.ok()) << data.status();
    data_ = *std::move(data);
    spec_.name = "model";
    TableSpec input;
    input.name = "input";
    input.role = TableRole::kEmbedding;
    input.rows = data_->num_features() + 1;
    input.bias_row = true;
    input.dim = 24;
    TableSpec head;
    head.name = "labels";
    head.role = TableRole::kHead;
    head.rows = data_->num_labels();
    head.dim = 24;
    head.head.max_active = 60;
    head.head.tail_rows = 40;
    head.head.hash.codes_per_table = 4;
    head.head.hash.num_tables = 12;
    head.head.hash.rebuild_every_steps = 10;
    spec_.tables = {input, head};
    spec_.training.batch_size = 50;
    spec_.training.max_epochs = 100;
    spec_.training.validation_fraction = 0;
  }

  // Trains so many steps as a client of its own; `during` runs beside it.
  absl::StatusOr<TrainingReport> Train(int64_t steps, const std::function<void()>& during = {}) {
    const auto cluster = MustConnect(*servers_, "job");
    RETURN_IF_ERROR(cluster->CreateModel(spec_).status());
    ASSIGN_OR_RETURN(const Network network, Network::Create(spec_));
    const TrainingSplit split = TrainingSplit::All(data_->num_points());
    ASSIGN_OR_RETURN(const std::unique_ptr<BatchPreparer> preparer,
                     BatchPreparer::Open(*cluster, network, BatchPreparerOptions()));
    const std::unique_ptr<ProgressSink> progress = QuietProgress();
    TrainerOptions options;
    options.max_steps = steps;
    options.on_step = [this](const FinishedStep&) { ++steps_; };
    ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                     Trainer::Create({.cluster = *cluster,
                                      .spec = network.spec(),
                                      .network = &network,
                                      .preparer = preparer.get(),
                                      .data = *data_,
                                      .split = split,
                                      .progress = *progress,
                                      .clock = SteadyClock()},
                                     options));
    std::thread beside([&] {
      if (during) during();
    });
    absl::StatusOr<TrainingReport> report = trainer->Run();
    beside.join();
    return report;
  }

  uint64_t Digest() {
    const auto description = client_->DescribeModel("model", /*with_digests=*/true);
    EXPECT_TRUE(description.ok()) << description.status();
    return description.ok() ? description->digest() : 0;
  }

  // Of each shard the digests and steps of its tables, and what hashing finds in all of them.
  std::vector<std::string> State() {
    std::vector<std::string> state;
    const auto description = client_->DescribeModel("model", /*with_digests=*/true);
    EXPECT_TRUE(description.ok()) << description.status();
    for (size_t shard = 0; shard < description->tables_by_shard.size(); ++shard) {
      for (const TableStateReply& table : description->tables_by_shard[shard]) {
        state.push_back(absl::StrFormat("shard %d, %s: %d rows, %d steps, digest %016x", shard,
                                        table.name, table.shard_rows, table.applied_steps,
                                        table.digest));
      }
    }
    const auto found = client_->TopK(HashedQuery());
    EXPECT_TRUE(found.ok()) << found.status();
    state.push_back(absl::StrCat("candidates: ", found->scored.scored_rows));
    for (size_t i = 0; i < found->scored.rows.size(); ++i) {
      state.push_back(absl::StrFormat("answer %d: row %d, %a", i, found->scored.rows[i].value(),
                                      found->scored.logits[i]));
    }
    return state;
  }

  // The same each time.
  TopKCommand HashedQuery() const {
    const auto network = Network::Create(spec_);
    EXPECT_TRUE(network.ok()) << network.status();
    TopKCommand query;
    query.model = spec_.name;
    query.table = network->head().name;
    query.batch = 8;
    query.dim = network->head().dim;
    query.k = 5;
    query.hashed = true;
    for (int64_t i = 0; i < query.batch * query.dim; ++i) {
      query.hidden.push_back(static_cast<float>(i * 37 % 23 - 11) / 11.0f);
    }
    const HashFamily& family = *network->hash_family();
    query.fingerprints.resize(static_cast<size_t>(query.batch * family.num_tables()));
    family.HashQueries(query.hidden, query.batch, {}, absl::MakeSpan(query.fingerprints));
    return query;
  }

  void AwaitSteps(int64_t steps) const {
    ASSERT_TRUE(Eventually([&] { return steps_ >= steps; })) << steps_;
  }

  std::unique_ptr<SparseDataset> data_;
  ModelSpec spec_;
  std::atomic<int64_t> steps_ = 0;
};

// From a part with all rows, and from one that was built on it; shard by shard, with hash tables.
TEST_F(TrainingCheckpointTest, WhatIsRestoredGoesOnLikeWhatNeverStopped) {
  ASSERT_TRUE(client_->CreateModel(IdleModel(6000)).ok());
  for (const int64_t steps : {35, 13}) {
    ASSERT_TRUE(Train(steps).ok());
    const auto taken = coordinator().CreateClusterCheckpoint();
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_STREQ(taken->kind(), taken->checkpoint_id == 1 ? "full" : "incremental");
  }
  const std::vector<std::string> at_cut = State();
  ASSERT_TRUE(Train(40).ok());
  const std::vector<std::string> never_stopped = State();
  EXPECT_NE(never_stopped, at_cut);
  ASSERT_TRUE(coordinator().RestoreClusterCheckpoint(2).ok());
  EXPECT_EQ(State(), at_cut);
  ASSERT_TRUE(Train(40).ok());
  EXPECT_EQ(State(), never_stopped);
  // As the first one was: the same steps lead to the same second cut.
  ASSERT_TRUE(coordinator().RestoreClusterCheckpoint(1).ok());
  ASSERT_TRUE(Train(13).ok());
  ASSERT_TRUE(coordinator().CreateClusterCheckpoint().ok());
  EXPECT_EQ(State(), at_cut);
}

// Retention takes the checkpoint away that all others were built on, and both ends of what is left
// are as they were.
TEST_F(TrainingCheckpointTest, IncrementsAreRestoredWhenTheirBaseIsGone) {
  ASSERT_TRUE(client_->CreateModel(IdleModel(6000)).ok());
  ASSERT_TRUE(Train(35).ok());
  std::map<uint64_t, uint64_t> digests;
  for (uint64_t checkpoint_id = 1; checkpoint_id <= 5; ++checkpoint_id) {
    const auto taken = coordinator().CreateClusterCheckpoint();
    ASSERT_TRUE(taken.ok()) << taken.status();
    ASSERT_EQ(taken->checkpoint_id, checkpoint_id);
    EXPECT_STREQ(taken->kind(), checkpoint_id == 1 ? "full" : "incremental");
    digests[checkpoint_id] = Digest();
    ASSERT_TRUE(Train(7).ok());
  }
  const auto kept = coordinator().ListClusterCheckpoints();
  ASSERT_TRUE(kept.ok()) << kept.status();
  ASSERT_EQ(kept->size(), 3u);
  for (const ClusterCheckpoint& checkpoint : *kept) {
    EXPECT_TRUE(coordinator().VerifyClusterCheckpoint(checkpoint.checkpoint_id).ok());
  }
  for (const uint64_t checkpoint_id : {3, 5}) {
    ASSERT_TRUE(coordinator().RestoreClusterCheckpoint(checkpoint_id).ok());
    EXPECT_EQ(Digest(), digests[checkpoint_id]) << "checkpoint_id " << checkpoint_id;
  }
  const auto next = coordinator().CreateClusterCheckpoint();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_STREQ(next->kind(), "full") << "after a restore";
}

// Checkpoints while steps are in flight neither end training nor cost a step.
TEST_F(TrainingCheckpointTest, TrainingGoesOnDuringCheckpoints) {
  spec_.training.in_flight_steps = 3;
  int taken = 0;
  const auto report = Train(2000, [&] {
    while (taken < 3) {
      const auto checkpoint = coordinator().CreateClusterCheckpoint();
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      EXPECT_TRUE(checkpoint->evicted.empty());
      ++taken;
    }
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->steps, 2000);
  EXPECT_EQ(report->new_beginnings, 0);
  EXPECT_EQ(taken, 3);
}

// The cluster goes back under a trainer's feet: it begins anew with the work that is open.
TEST_F(TrainingCheckpointTest, ATrainerBeginsAnewAfterARestore) {
  const auto report = Train(1000, [&] {
    AwaitSteps(50);
    ASSERT_TRUE(coordinator().CreateClusterCheckpoint().ok());
    AwaitSteps(80);
    ASSERT_TRUE(coordinator().RestoreClusterCheckpoint(0).ok());
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->steps, 1000);
  EXPECT_EQ(report->new_beginnings, 1);
}

}  // namespace
}  // namespace dslide

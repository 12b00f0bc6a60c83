// Training through the real services: the cut into shards changes no loss, the number of threads
// and a repetition change no bit.

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/cpp/cluster_client.h"
#include "client/trainer/trainer.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sources/synthetic.h"
#include "core/engine/data/sparse_dataset.h"
#include "gtest/gtest.h"
#include "services/embedded/embedded_cluster.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

struct RunSettings {
  std::vector<double> shard_weights = {1.0};
  int threads = 1;
  int64_t steps = 100;
  uint64_t seed = 1;
};

struct RunResult {
  std::vector<double> losses;  // of each step, a sample
  uint64_t digest = 0;         // of all rows of all shards
};

class ShardedTrainingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = absl::StrCat(::testing::TempDir(), "sharded.", getpid());
    std::filesystem::create_directories(dir_);
    const std::string path = absl::StrCat(dir_, "/train.txt");
    SyntheticOptions synthetic;
    synthetic.points = 3000;
    synthetic.features = 700;
    synthetic.labels = 900;
    synthetic.features_per_point = 12;
    ASSERT_TRUE(GenerateSynthetic(synthetic, path).ok());
    auto data = SparseDataset::Open(path, {});
    ASSERT_TRUE(data.ok()) << data.status();
    data_ = *std::move(data);

    spec_.name = "sharded";
    TableSpec input;
    input.name = "input";
    input.role = TableRole::kEmbedding;
    input.rows = data_->num_features() + 1;
    input.bias_row = true;
    input.dim = 24;
    TableSpec hidden;
    hidden.name = "hidden";
    hidden.role = TableRole::kDense;
    hidden.rows = 20;
    hidden.dim = 24;
    TableSpec head;
    head.name = "labels";
    head.role = TableRole::kHead;
    head.rows = data_->num_labels();
    head.dim = 20;
    head.head.max_active = 0;
    for (TableSpec* table : {&input, &hidden, &head}) {
      table->optimizer.kind = OptimizerKind::kAdam;
      table->optimizer.learning_rate = 0.003;
    }
    spec_.tables = {input, hidden, head};
    spec_.training.batch_size = 64;
    spec_.training.max_epochs = 100;
    spec_.training.validation_fraction = 0;
    spec_.training.input_dropout = 0.1;
    spec_.training.hidden_dropout = 0.2;
  }

  void TearDown() override {
    data_.reset();
    std::filesystem::remove_all(dir_);
  }

  void UseHashing() {
    HeadSpec& head = spec_.tables.back().head;
    head.max_active = 60;
    head.tail_rows = 40;
    head.hash.codes_per_table = 4;
    head.hash.num_tables = 16;
    head.hash.rebuild_every_steps = 10;
  }

  absl::StatusOr<RunResult> Train(const RunSettings& settings) const {
    EmbeddedClusterOptions options;
    options.shards = static_cast<int64_t>(settings.shard_weights.size());
    options.threads_per_shard = settings.threads;
    options.capacity_weights = settings.shard_weights;
    ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddedCluster> servers,
                     EmbeddedCluster::Start(options));
    EmbeddedCluster* raw = servers.get();
    ClientOptions client;
    client.job = "job";
    client.timeout = kPatience;
    ASSIGN_OR_RETURN(
        const std::unique_ptr<ClusterClient> cluster,
        ClusterClient::Connect(
            raw->coordinator_address(),
            [raw](const std::string& address) { return raw->OpenChannel(address); }, client));
    ModelSpec spec = spec_;
    spec.seed = settings.seed;
    RETURN_IF_ERROR(cluster->CreateModel(spec).status());
    ASSIGN_OR_RETURN(const Network network, Network::Create(spec));
    const TrainingSplit split = TrainingSplit::All(data_->num_points());
    BatchPreparerOptions preparation;
    preparation.seed = settings.seed;
    ASSIGN_OR_RETURN(const std::unique_ptr<BatchPreparer> preparer,
                     BatchPreparer::Open(*cluster, network, std::move(preparation)));
    const std::unique_ptr<ProgressSink> progress = QuietProgress();
    RunResult result;
    TrainerOptions trainer_options;
    trainer_options.seed = settings.seed;
    trainer_options.max_steps = settings.steps;
    trainer_options.parallelism.threads = settings.threads;
    trainer_options.on_step = [&](const FinishedStep& step) {
      result.losses.push_back(step.loss_sum / static_cast<double>(step.samples));
    };
    ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                     Trainer::Create({.cluster = *cluster,
                                      .spec = network.spec(),
                                      .network = &network,
                                      .preparer = preparer.get(),
                                      .data = *data_,
                                      .split = split,
                                      .progress = *progress,
                                      .clock = SteadyClock()},
                                     trainer_options));
    RETURN_IF_ERROR(trainer->Run().status());
    ASSIGN_OR_RETURN(const ModelDescription description,
                     cluster->DescribeModel(spec.name, /*with_digests=*/true));
    result.digest = description.digest();
    return result;
  }

  RunResult MustTrain(const RunSettings& settings) const {
    absl::StatusOr<RunResult> result = Train(settings);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : RunResult();
  }

  std::string dir_;
  std::unique_ptr<SparseDataset> data_;
  ModelSpec spec_;
};

// What remains is the order in which the shards' partial sums are added.
TEST_F(ShardedTrainingTest, TheNumberOfShardsChangesNoLoss) {
  const RunResult one = MustTrain({});
  ASSERT_EQ(one.losses.size(), 100u);
  EXPECT_LT(one.losses.back(), 0.97 * one.losses.front());
  const std::vector<std::vector<double>> cuts = {
      {1, 1}, {3, 1}, {1, 1, 1, 1, 1}, {1, 2, 0.5, 4, 1}};
  for (const std::vector<double>& weights : cuts) {
    const RunResult cut = MustTrain({.shard_weights = weights});
    ASSERT_EQ(cut.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(cut.losses[i], one.losses[i], 1e-5 * one.losses[i])
          << weights.size() << " shards, step " << i;
    }
  }
}

TEST_F(ShardedTrainingTest, ThreadsChangeNoBit) {
  for (const bool hashed : {false, true}) {
    if (hashed) UseHashing();
    const RunResult one = MustTrain({.shard_weights = {2, 1}, .threads = 1, .steps = 60});
    ASSERT_EQ(one.losses.size(), 60u);
    for (const int threads : {2, 5}) {
      const RunResult more = MustTrain({.shard_weights = {2, 1}, .threads = threads, .steps = 60});
      EXPECT_EQ(more.losses, one.losses) << "hashed " << hashed << ", threads " << threads;
      EXPECT_EQ(more.digest, one.digest) << "hashed " << hashed << ", threads " << threads;
    }
  }
}

// Nothing of a run but its seed enters the result: no clock, no client id, no arrival time.
TEST_F(ShardedTrainingTest, EqualSeedsGiveEqualBits) {
  UseHashing();
  spec_.training.in_flight_steps = 3;
  const RunSettings settings = {.shard_weights = {1, 1, 1}, .threads = 2, .steps = 60};
  const RunResult first = MustTrain(settings);
  const RunResult second = MustTrain(settings);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.digest, second.digest);
  EXPECT_NE(first.digest, 0u);
  RunSettings other = settings;
  other.seed = 2;
  EXPECT_NE(MustTrain(other).digest, first.digest);
}

}  // namespace
}  // namespace dslide

// Models that grow on all shards of a cluster.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/spec/model_growth.h"
#include "services/coordinator/control/coordinator.h"
#include "tests/unit/services/coordinator/coordinator_fixture.h"

namespace dslide::coordinator {
namespace {

using ::testing::HasSubstr;

class CoordinatorGrowthTest : public CoordinatorFixture {
 protected:
  absl::StatusOr<ModelGrowth> Grow(int64_t rows, bool dry_run = false) {
    return coordinator_->GrowModel(
        {.model = "m", .growth = {.table = "head", .rows = rows}, .dry_run = dry_run}, kTimeout);
  }
  int64_t RowsOn(const std::string& address) {
    return shards_.With(address,
                        [](auto& shard) { return shard.models.at("m").spec.tables[1].rows; });
  }
  int64_t RegisteredRows() { return coordinator_->registry().ListModels().at(0).tables[1].rows; }
};

TEST_F(CoordinatorGrowthTest, EveryShardGrowsAndTheCatalogKnows) {
  StartWithModel();
  const auto grown = Grow(150);
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_EQ(grown->rows_before, 100);
  EXPECT_EQ(grown->spec, *GrowTable(TestModel("m"), "head", 150));
  EXPECT_EQ(RowsOn("a:1"), 150);
  EXPECT_EQ(RowsOn("b:1"), 150);
  EXPECT_EQ(shards_.With("b:1", [](auto& shard) { return shard.models.at("m").shard; }),
            ShardId(1));
  EXPECT_TRUE(Grow(150).ok());
  Restart(/*with_store=*/true);
  EXPECT_EQ(RegisteredRows(), 150);
}

TEST_F(CoordinatorGrowthTest, TrainersOfBeforeJoinAndLargerOnesAreToldWhatToDo) {
  StartWithModel();
  ASSERT_TRUE(Grow(150).ok());
  const auto older = coordinator_->RegisterModel(TestModel("m"), kTimeout);
  ASSERT_TRUE(older.ok()) << older.status();
  EXPECT_FALSE(*older);
  EXPECT_EQ(RegisteredRows(), 150);
  EXPECT_EQ(RowsOn("a:1"), 150);
  const auto larger =
      coordinator_->RegisterModel(*GrowTable(TestModel("m"), "head", 151), kTimeout);
  EXPECT_EQ(ReasonOf(larger.status()), reason::kModelDiffers);
  EXPECT_THAT(std::string(larger.status().message()),
              HasSubstr("dslide model grow m --table head --rows 151"));
}

TEST_F(CoordinatorGrowthTest, WhatCannotBeIsRefusedBeforeAnythingChanges) {
  StartWithModel();
  EXPECT_EQ(Grow(99).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(coordinator_
                         ->GrowModel({.model = "other", .growth = {.table = "head", .rows = 150}},
                                     kTimeout)
                         .status()),
            reason::kUnknownModel);
  shards_.With("b:1", [](auto& shard) {
    shard.create_failure = absl::ResourceExhaustedError("9 bytes are left");
  });
  const auto refused = Grow(150);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("9 bytes are left"));
  EXPECT_EQ(RegisteredRows(), 100);
  EXPECT_EQ(RowsOn("a:1"), 100);
  shards_.With("b:1", [](auto& shard) { shard.create_failure = absl::OkStatus(); });
  ASSERT_TRUE(Grow(150, /*dry_run=*/true).ok());
  EXPECT_EQ(RegisteredRows(), 100);
  EXPECT_EQ(RowsOn("a:1"), 100);
}

TEST_F(CoordinatorGrowthTest, WhatWasRecordedIsFinishedByTheNextProcess) {
  StartWithModel();
  // The coordinator ends after it has recorded the growth, and before any shard was asked.
  coordinator_.reset();
  {
    auto store = OpenCatalogStore(data_dir_);
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Load().ok());
    ASSERT_TRUE((*store)->PutModel(*GrowTable(TestModel("m"), "head", 150)).ok());
  }
  Restart(/*with_store=*/true);
  for (const int32_t shard : {0, 1}) {
    ASSERT_TRUE(coordinator_->registry().Heartbeat(ShardId(shard), 1, 0, 0).ok());
  }
  Await([&] { return RowsOn("a:1") == 150 && RowsOn("b:1") == 150; });
  // A shard that comes back smaller is the same model, and grows.
  ASSERT_TRUE(
      coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {TestModel("m")}).ok());
  EXPECT_EQ(RegisteredRows(), 150);
}

TEST_F(CoordinatorGrowthTest, ACoordinatorWithoutMemoryTakesTheLargestAndGrowsTheOthers) {
  shards_.With("a:1", [](auto& shard) { shard.models["m"].spec = TestModel("m"); });
  const ModelSpec grown = *GrowTable(TestModel("m"), "head", 150);
  ASSERT_TRUE(coordinator_->registry().Register(Registration(1, "a:1", 0), {TestModel("m")}).ok());
  ASSERT_TRUE(coordinator_->registry().Register(Registration(2, "b:1", 1, 3.0), {grown}).ok());
  EXPECT_EQ(RegisteredRows(), 150);
  Await([&] { return RowsOn("a:1") == 150; });
}

TEST_F(CoordinatorGrowthTest, ARollbackToBeforeGrowthTakesTheRowsBack) {
  StartWithModel();
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  ASSERT_TRUE(Grow(150).ok());
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  // Parts of another shape are built on nothing.
  EXPECT_EQ(shards_.With("a:1", [](auto& shard) { return shard.bases.at(2).checkpoint_id; }), 0u);
  ASSERT_TRUE(coordinator_->checkpoints().Restore(1, progress_).ok());
  EXPECT_EQ(RegisteredRows(), 100);
  ASSERT_TRUE(coordinator_->checkpoints().Restore(2, progress_).ok());
  EXPECT_EQ(RegisteredRows(), 150);
  Restart(/*with_store=*/true);
  EXPECT_EQ(RegisteredRows(), 150);
}

}  // namespace
}  // namespace dslide::coordinator

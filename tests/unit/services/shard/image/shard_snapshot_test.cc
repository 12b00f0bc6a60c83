// What a snapshot writes down is one instant of all tables, whatever happens before it is written.

#include "services/shard/image/shard_snapshot.h"

#include <gmock/gmock.h>

#include "services/shard/state/core_state.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

class ShardSnapshotTest : public LogDirectoryTest {
 protected:
  // Changes rows of every table.
  void ChangeAllTables() {
    for (const char* table : {"head", "input"}) {
      ASSERT_TRUE(core_->Apply(trainer_.Scatter(ScatterMode::kAdd, table)).reply->status.ok());
    }
    ++step_;
    ASSERT_TRUE(core_->Apply(trainer_.Step(trainer_.DenseScatter(), step_)).reply->status.ok());
  }
  std::vector<uint64_t> Digests(const ShardCore& core) const {
    std::vector<uint64_t> digests;
    const auto& model = core.models().at("m");
    for (const TableStateReply& table : model->Describe(/*with_digests=*/true).tables) {
      digests.push_back(table.digest);
    }
    return digests;
  }

  SampleTrainer trainer_;
  std::unique_ptr<ShardCore> core_ = SampleCore(trainer_);
  int64_t step_ = 0;
};

TEST_F(ShardSnapshotTest, AllTablesAreOfTheInstantAtWhichItWasTaken) {
  ChangeAllTables();
  const std::vector<uint64_t> rows = Digests(*core_);
  const std::string state = EncodeCoreState(*core_);
  const auto snapshot = ShardSnapshot::Take(42, *core_);
  for (int i = 0; i < 20; ++i) ChangeAllTables();
  const std::vector<uint64_t> later = Digests(*core_);
  ASSERT_EQ(later.size(), 3u);
  for (size_t table = 0; table < later.size(); ++table) {
    ASSERT_NE(later[table], rows[table]) << "table " << table << " must change";
  }
  EXPECT_GT(snapshot->copied_bytes(), 0);
  ASSERT_TRUE(snapshot->Write(Path("image")).ok());
  snapshot->Release();

  ShardCore loaded(SampleOptions());
  const auto read = LoadImage(Path("image"), loaded);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->lsn, 42u);
  EXPECT_EQ(Digests(loaded), rows);
  EXPECT_EQ(EncodeCoreState(loaded), state);
  EXPECT_EQ(Digests(*core_), later) << "the shard itself goes on";
}

}  // namespace
}  // namespace dslide::shard

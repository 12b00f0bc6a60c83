// Checkpoints of a model, and what a stop leaves beside them, as earlier programs have written
// them.

#include "services/shard/durability/stop_state.h"
#include "services/shard/image/storage_checkpoint.h"
#include "tests/golden/format_files.h"

namespace dslide::golden {
namespace {

using shard::CheckpointStore;
using shard::ShardCore;

constexpr char kCheckpointFormatKept[] = "checkpoint-v2";

class CheckpointFormatTest : public FormatTest {
 protected:
  // As a start of a shard in mode checkpoint.
  absl::Status Start(const std::string& data_dir, ShardCore& core) {
    auto store = CheckpointStore::Open(data_dir);
    if (!store.ok()) return store.status();
    auto model = (*store)->Load(core, "golden", shard::kLatestCheckpoint);
    if (!model.ok()) return model.status();
    core.InstallModel(*std::move(model));
    const std::string stopped = data_dir + "/STOPPED";
    return shard::DecodeStopState(stopped, Read(stopped), core);
  }
};

TEST_F(CheckpointFormatTest, AShardThatStartsOnItHasItsRowsAndClients) {
  const std::string data_dir = CopyOf(kCheckpointFormatKept);
  const std::unique_ptr<ShardCore> core = FreshCore();
  const absl::Status started = Start(data_dir, *core);
  ASSERT_TRUE(started.ok()) << started;
  ExpectHolds(*core, kCheckpointFormatKept);
  EXPECT_EQ(shard::EncodeStopState(*core), Read(data_dir + "/STOPPED"))
      << "the layout has changed, and its version has not";
}

TEST_F(CheckpointFormatTest, StopsOfOtherVersionsAreRefused) {
  for (const int64_t version : {0, 2}) {
    const std::string data_dir = CopyOf(kCheckpointFormatKept);
    PatchBytes(data_dir + "/STOPPED", "DSLISTP1", absl::StrCat("DSLISTP", version));
    const std::unique_ptr<ShardCore> core = FreshCore();
    ExpectOtherVersion(Start(data_dir, *core), data_dir + "/STOPPED", version, "format 1");
  }
}

}  // namespace
}  // namespace dslide::golden

#include "services/shard/storage/hash_image.h"

#include <gmock/gmock.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/crc32c.h"
#include "services/shard/image/shard_image.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/rebuilt_tables.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

class HashImageTest : public LogDirectoryTest {
 protected:
  // A shard whose rows have changed since they were hashed.
  static std::unique_ptr<ShardCore> TrainedCore() {
    auto core = std::make_unique<ShardCore>(SampleOptions());
    EXPECT_TRUE(core->Apply(SampleCreate()).reply->status.ok());
    SampleTrainer trainer;
    EXPECT_TRUE(core->Apply(trainer.Hello()).reply->status.ok());
    for (int i = 0; i < 7; ++i) {
      EXPECT_TRUE(core->Apply(trainer.Scatter(ScatterMode::kAdd)).reply->status.ok());
    }
    return core;
  }
  static std::string Hashes(const ShardCore& core) {
    return EncodeHashes(HashesOf(*core.models().begin()->second));
  }
  // Of the rows that the tables give for each fingerprint, the same one in all tables.
  static uint32_t ActiveSetDigest(const ShardCore& core) {
    const HashSpec hash = ResolvedHead(SampleSpec().tables[2]).hash;
    uint32_t digest = 0;
    for (uint32_t print = 0; print < (1u << FingerprintBits(hash)); ++print) {
      GatherCommand query{.model = "m", .table = "head", .rows = {}, .fingerprints = {}};
      query.by_fingerprint = true;
      query.batch = 1;
      query.fingerprints.assign(static_cast<size_t>(hash.num_tables), print);
      const auto active = core.models().at("m")->Gather(query);
      EXPECT_TRUE(active.ok()) << active.status();
      for (const RowId row : active->sample_rows) {
        digest = ExtendCrc32c(digest, absl::StrCat(print, " ", row.value(), " "));
      }
    }
    return digest;
  }
  absl::Status Load(ShardCore& core) { return LoadImage(Path("image"), core).status(); }
};

TEST_F(HashImageTest, TablesComeBackWithTheirRows) {
  const auto core = TrainedCore();
  ASSERT_TRUE(WriteImage(Path("image"), 5, *core).ok());
  ShardCore restored(SampleOptions());
  ASSERT_TRUE(Load(restored).ok());
  EXPECT_EQ(Hashes(restored), Hashes(*core));
  RebuildTables(*core);
  EXPECT_NE(Hashes(restored), Hashes(*core)) << "tables made from the rows would be other ones";
}

TEST_F(HashImageTest, ARestoredShardSelectsTheRowsThatItSelectedBefore) {
  const auto core = TrainedCore();
  const uint32_t before = ActiveSetDigest(*core);
  ASSERT_TRUE(WriteImage(Path("image"), 5, *core).ok());
  ShardCore restored(SampleOptions());
  ASSERT_TRUE(Load(restored).ok());
  EXPECT_EQ(ActiveSetDigest(restored), before);
  // Rows that have changed since they were hashed are hashed again at the same later step.
  SampleTrainer same = SampleTrainer(2);
  SampleTrainer other = SampleTrainer(2);
  for (const auto& [shard, trainer] :
       {std::pair{core.get(), &same}, std::pair{&restored, &other}}) {
    ASSERT_TRUE(shard->Apply(trainer->Hello()).reply->status.ok());
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(shard->Apply(trainer->Scatter(ScatterMode::kAdd)).reply->status.ok());
    }
  }
  const uint32_t later = ActiveSetDigest(*core);
  EXPECT_EQ(ActiveSetDigest(restored), later);
  EXPECT_NE(later, before) << "the tables must have been built again";
  RebuildTables(*core);
  EXPECT_NE(ActiveSetDigest(*core), later) << "rows as they are now must give other active sets";
}

TEST_F(HashImageTest, MissingAndForeignTablesAreRefused) {
  ASSERT_TRUE(WriteImage(Path("image"), 5, *TrainedCore()).ok());
  const std::string path = Path("image/hashes-000");
  const std::string good = Read(path);
  const auto expect_refusal = [&](const std::string& text) {
    ShardCore core(SampleOptions());
    const absl::Status status = Load(core);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  };
  std::filesystem::remove(path);
  expect_refusal("hashes-000 is missing");
  Write(path, good.substr(0, good.size() - 1));
  expect_refusal("does not have its checksum");
  Write(path, EncodeHashes({}));
  expect_refusal("hash tables for 0, the model has 3");
  Write(path, EncodeHashes(ModelHashes(3)));
  expect_refusal("has hash tables, the image none");
  ModelHashes other = *DecodeHashes(good);
  other[2]->index.codes.pop_back();
  Write(path, EncodeHashes(other));
  expect_refusal("bytes of codes");
  other = *DecodeHashes(good);
  std::swap(other[0], other[2]);
  Write(path, EncodeHashes(other));
  expect_refusal("table \"input\" has no hash tables");
}

}  // namespace
}  // namespace dslide::shard

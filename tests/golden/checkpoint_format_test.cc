// The images of a shard that was stopped in mode checkpoint, as earlier programs have written them.

#include "services/shard/image/image_label.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/model_checkpoints.h"
#include "services/shard/image/shard_image.h"
#include "tests/golden/format_files.h"

namespace dslide::golden {
namespace {

using shard::ShardCore;

constexpr char kStoppedShardKept[] = "stopped-v1";

class CheckpointFormatTest : public FormatTest {
 protected:
  static std::string StoppedPath(const std::string& data_dir) {
    return absl::StrCat(shard::ImageStore::DirectoryIn(data_dir), "/", shard::kStoppedLabel);
  }
  // As a start of a shard in mode checkpoint.
  static absl::Status Start(const std::string& data_dir, ShardCore& core) {
    auto images = shard::ImageStore::Open(shard::ImageStore::DirectoryIn(data_dir));
    if (!images.ok()) return images.status();
    auto model = shard::ModelCheckpoints(images->get()).Load(core, "golden", "latest");
    if (!model.ok()) return model.status();
    core.InstallModel(*std::move(model));
    return shard::LoadImage(StoppedPath(data_dir), core).status();
  }
};

TEST_F(CheckpointFormatTest, AShardThatStartsOnItHasItsRowsAndClients) {
  const std::string data_dir = CopyOf(kStoppedShardKept);
  const std::unique_ptr<ShardCore> core = FreshCore();
  const absl::Status started = Start(data_dir, *core);
  ASSERT_TRUE(started.ok()) << started;
  ExpectHolds(*core, kStoppedShardKept);
  ASSERT_TRUE(shard::WriteImageOf(Path("again"), shard::PartsWithoutRows(*core), nullptr).ok());
  for (const char* file : {"/state", "/FILES"}) {
    EXPECT_EQ(Read(Path("again") + file), Read(StoppedPath(data_dir) + file))
        << "the layout has changed, and its version has not";
  }
}

TEST_F(CheckpointFormatTest, OtherVersionsAreRefused) {
  for (const char* label : {"golden.latest", shard::kStoppedLabel}) {
    for (const int64_t version : {0, 2}) {
      const std::string data_dir = CopyOf(kStoppedShardKept);
      const std::string state = absl::StrCat(data_dir, "/images/", label, "/state");
      PatchBytes(state, "DSLIMAGE1", absl::StrCat("DSLIMAGE", version));
      const std::unique_ptr<ShardCore> core = FreshCore();
      ExpectOtherVersion(Start(data_dir, *core), state, version, "format 1");
    }
  }
}

}  // namespace
}  // namespace dslide::golden

#include "services/shard/durability/checkpoint_participant.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/protocol/reason_words.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/image_store.h"
#include "services/shard/shard_runtime.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

// Bytes that this process has asked the system for so far.
int64_t BytesRead() {
  std::ifstream counters("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  counters >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

// A shard with checkpoint 1, which has changed since.
class CheckpointParticipantTest : public LogDirectoryTest {
 protected:
  void Start(ShardCoreOptions options = SampleOptions()) {
    images_ = nullptr;
    store_ = *ImageStore::Open(Path("images"));
    images_ = std::make_unique<CheckpointImages>(store_.get(), &SteadyClock());
    ModelSpec spec = SampleSpec();
    spec.tables[0].rows = 20'000;
    auto core = std::make_unique<ShardCore>(options);
    core->Apply(SetOwnershipCommand{.shard = ShardId(0), .generation = 1});
    ASSERT_TRUE(core->Apply(SampleCreate(spec)).reply->status.ok());
    runtime_ = std::make_unique<ShardRuntime>(
        ShardRuntimeParts{.core = std::move(core),
                          .images = images_.get(),
                          .metrics = shard_metrics_,
                          .clock = SteadyClock()},
        ShardRuntimeOptions{.queue = {.threads = false},
                            .core = [options] { return options; },
                            .on_broken = [this](const absl::Status& why) { broken_ = why; }});
    absl::Notification over;
    ASSERT_TRUE(images_
                    ->Begin(1, ShardSnapshot::Take(0, core_now()),
                            [&](const std::shared_ptr<ShardSnapshot>& snapshot) {
                              snapshot->Release();
                              over.Notify();
                            })
                    .ok());
    over.WaitForNotification();
    while (images_->busy()) absl::SleepFor(absl::Milliseconds(1));
    files_ = images_->Progress(1).files;
    at_cut_ = core_now().Digest();
    SampleTrainer trainer;
    ASSERT_TRUE(core_now().Apply(trainer.Hello()).reply->status.ok());
    ASSERT_TRUE(core_now().Apply(trainer.Scatter(ScatterMode::kAdd, "head")).reply->status.ok());
    now_ = core_now().Digest();
    ASSERT_NE(now_, at_cut_);
  }

  ShardCore& core_now() { return runtime_->core(); }
  CheckpointParticipant& participant() { return *runtime_->participant(); }
  std::string File(const std::string& name) const { return images_->PathOf(1) + "/" + name; }
  absl::StatusOr<FileListSummary> Prepare() {
    return participant().PrepareRollback(1, files_.checksum);
  }
  absl::Status Rollback() {
    return participant().Rollback(core_now(), 1, files_.checksum).status();
  }
  void ExpectNothingChanged() {
    EXPECT_EQ(core_now().Digest(), now_);
    EXPECT_TRUE(broken_.ok()) << broken_;
  }

  Metrics metrics_;
  StageTimes stages_{SteadyClock()};
  ShardMetrics shard_metrics_{metrics_, stages_};
  std::unique_ptr<ImageStore> store_;
  std::unique_ptr<CheckpointImages> images_;
  std::unique_ptr<ShardRuntime> runtime_;
  FileListSummary files_;
  uint64_t at_cut_ = 0;
  uint64_t now_ = 0;
  absl::Status broken_;
};

TEST_F(CheckpointParticipantTest, ARollbackReadsEachFileOnce) {
  Start();
  ASSERT_GT(files_.bytes, 500'000);
  const int64_t before = BytesRead();
  const auto prepared = Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->checksum, files_.checksum);
  ExpectNothingChanged();
  ASSERT_TRUE(Rollback().ok());
  const int64_t read = BytesRead() - before;
  EXPECT_GE(read, files_.bytes);
  EXPECT_LE(read, files_.bytes + 20'000) << "the list itself, and what /proc says";
  EXPECT_EQ(core_now().Digest(), at_cut_);
  EXPECT_TRUE(broken_.ok()) << broken_;
}

TEST_F(CheckpointParticipantTest, WhatIsPreparedNeedsTheDiskNoMore) {
  Start();
  ASSERT_TRUE(Prepare().ok());
  std::filesystem::remove_all(images_->PathOf(1));
  ASSERT_TRUE(Prepare().ok()) << "it is there already";
  ASSERT_TRUE(Rollback().ok());
  EXPECT_EQ(core_now().Digest(), at_cut_);
}

TEST_F(CheckpointParticipantTest, APreparationIsDroppedByAnAbortAndByTheNextCheckpoint) {
  Start();
  ASSERT_TRUE(Prepare().ok());
  participant().Abort(core_now(), 1);
  std::filesystem::rename(images_->PathOf(1), Path("away"));
  EXPECT_EQ(ReasonOf(Prepare().status()), reason::kUnknownCheckpoint);
  std::filesystem::rename(Path("away"), images_->PathOf(1));
  ASSERT_TRUE(Prepare().ok());
  ASSERT_TRUE(participant().Freeze(core_now(), 2, 1, absl::Seconds(1)).ok());
  std::filesystem::remove_all(images_->PathOf(1));
  EXPECT_EQ(ReasonOf(Prepare().status()), reason::kUnknownCheckpoint);
  ExpectNothingChanged();
}

TEST_F(CheckpointParticipantTest, AFileThatDiffersIsNamedAndNothingHasChanged) {
  Start();
  const auto refusal = [&] {
    const absl::Status status = Prepare().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    ExpectNothingChanged();
    EXPECT_TRUE(absl::IsDataLoss(Rollback()));
    ExpectNothingChanged();
    return std::string(status.message());
  };
  int flipped = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(images_->PathOf(1))) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    const std::string path = entry.path().string();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto middle = static_cast<std::streamoff>(entry.file_size() / 2);
    file.seekg(middle);
    const char byte = static_cast<char>(file.get());
    file.seekp(middle);
    file.put(static_cast<char>(byte ^ 1));
    file.close();
    EXPECT_THAT(refusal(), HasSubstr(entry.path().filename().string())) << path;
    file.open(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(middle);
    file.put(byte);
    ++flipped;
  }
  EXPECT_GE(flipped, 6);
  std::ofstream(File("model-000/surplus")) << "x";
  EXPECT_THAT(refusal(), HasSubstr("surplus was not written with the others"));
  std::filesystem::remove(File("model-000/surplus"));
  EXPECT_THAT(std::string(participant().PrepareRollback(1, files_.checksum + 1).status().message()),
              HasSubstr("it is of another checkpoint"));
  ASSERT_TRUE(Prepare().ok()) << "as it was";
}

// Both states do not fit: the part is verified beside the present state, and loaded in its place.
TEST_F(CheckpointParticipantTest, WithoutRoomForTwoStatesThePresentOneGoesFirst) {
  Start();
  ShardCoreOptions options = SampleOptions();
  options.memory_bytes = core_now().memory_bytes() * 3 / 2;
  runtime_ = nullptr;
  std::filesystem::remove_all(Path("images"));
  Start(options);
  ASSERT_TRUE(Prepare().ok());
  ExpectNothingChanged();
  const int64_t before = BytesRead();
  ASSERT_TRUE(Rollback().ok());
  EXPECT_GE(BytesRead() - before, files_.bytes) << "read now";
  EXPECT_EQ(core_now().Digest(), at_cut_);
}

}  // namespace
}  // namespace dslide::shard

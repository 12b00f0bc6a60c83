// Parts of cluster checkpoints that are built on earlier ones: what is written, what is loaded, and
// when all rows are written instead.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "absl/synchronization/notification.h"
#include "services/shard/image/checkpoint_images.h"
#include "services/shard/image/image_store.h"
#include "services/shard/state/core_state.h"
#include "services/shard/storage/hash_image.h"
#include "services/shard/storage/storage_database.h"
#include "services/shard/storage/storage_rows.h"
#include "tests/unit/services/shard/log/log_samples.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// All that an image holds.
std::string Describe(const ShardCore& core) {
  std::string text = EncodeCoreState(core);
  for (const auto& [name, model] : core.models()) {
    for (const TableStateReply& table : model->Describe(/*with_digests=*/true).tables) {
      absl::StrAppend(&text, name, "/", table.name, " ", table.applied_steps, " ", table.digest,
                      "\n");
    }
    absl::StrAppend(&text, EncodeHashes(HashesOf(*model)));
  }
  return text;
}

class PartIncrementTest : public LogDirectoryTest {
 protected:
  void SetUp() override {
    LogDirectoryTest::SetUp();
    Open();
    // So that one dense table, which always changes as a whole, is no half of all rows.
    CreateModelCommand idle = SampleCreate();
    idle.spec.name = "idle";
    ASSERT_TRUE(core_->Apply(idle).reply->status.ok());
  }

  // As after a start of the shard, but for the rows.
  void Open() {
    images_ = nullptr;
    auto opened = ImageStore::Open(Path("images"));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    images_ = std::make_unique<CheckpointImages>(store_.get(), &SteadyClock());
  }
  void Scatter(const std::string& table = "head") {
    const ScatterCommand scatter = trainer_.Scatter(ScatterMode::kAdd, table);
    for (const RowId row : scatter.rows.rows) changed_[table].insert(row.value());
    ASSERT_TRUE(core_->Apply(scatter).reply->status.ok());
  }
  // A whole step of a trainer.
  void Step() {
    ++step_;
    for (const StepOp& op : std::vector<StepOp>{trainer_.EmbedForward(), trainer_.HeadForward(),
                                                trainer_.HeadBackward(), trainer_.DenseScatter(),
                                                trainer_.EmbedBackward()}) {
      const Answer answer = core_->Apply(trainer_.Step(op, step_));
      ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    }
  }
  // Cuts now, has `meanwhile` done, and writes.
  CheckpointProgress WritePart(uint64_t checkpoint_id, uint64_t base,
                               const std::function<void()>& meanwhile = {}) {
    core_->SettleTables();
    at_cut_[checkpoint_id] = Describe(*core_);
    changed_.clear();
    PartBase on{.checkpoint_id = base};
    if (base != 0) on.files_checksum = images_->Progress(base).files.checksum;
    if (on.files_checksum == 0) on.files_checksum = 1;
    std::shared_ptr<ShardSnapshot> snapshot = ShardSnapshot::TakeCut(0, *core_, checkpoint_id, on);
    if (meanwhile) meanwhile();
    absl::Notification over;
    const absl::Status begun = images_->Begin(checkpoint_id, std::move(snapshot),
                                              [&](const std::shared_ptr<ShardSnapshot>& written) {
                                                written->Release();
                                                over.Notify();
                                              });
    EXPECT_TRUE(begun.ok()) << begun;
    over.WaitForNotification();
    while (images_->busy()) absl::SleepFor(absl::Milliseconds(1));
    return images_->Progress(checkpoint_id);
  }
  // What there is on the disk gives the state of the cut, bit for bit.
  void ExpectLoads(uint64_t checkpoint_id) {
    EXPECT_TRUE(images_->Verify(checkpoint_id).ok()) << images_->Verify(checkpoint_id).status();
    const auto inspected = InspectImage(images_->PathOf(checkpoint_id));
    EXPECT_TRUE(inspected.ok()) << inspected.status();
    ShardCore loaded(SampleOptions());
    const absl::Status status = images_->Load(checkpoint_id, loaded).status();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Describe(loaded), at_cut_[checkpoint_id]) << "checkpoint_id " << checkpoint_id;
  }
  std::string InPart(uint64_t checkpoint_id, const std::string& name) const {
    return absl::StrCat(images_->PathOf(checkpoint_id), "/", name);
  }
  // The part of 2 is an increment on that of 1.
  void WriteTwo() {
    EXPECT_EQ(WritePart(1, 0).base_checkpoint_id, 0u);
    Scatter();
    ASSERT_EQ(WritePart(2, 1).base_checkpoint_id, 1u);
  }
  static std::string LargestTable(const std::string& directory) {
    std::string largest;
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (entry.path().extension() != ".sst") continue;
      if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
    }
    return largest;
  }

  SampleTrainer trainer_;
  std::unique_ptr<ShardCore> core_ = SampleCore(trainer_);
  std::unique_ptr<ImageStore> store_;
  std::unique_ptr<CheckpointImages> images_;
  std::map<std::string, std::set<uint32_t>> changed_;  // since the last cut, by table
  std::map<uint64_t, std::string> at_cut_;
  int64_t step_ = 0;
};

TEST_F(PartIncrementTest, HasTheRowsThatHaveChangedAndNoOthers) {
  const CheckpointProgress full = WritePart(1, 0);
  EXPECT_EQ(full.written_bytes, full.files.bytes);
  Scatter();
  Scatter("input");
  const auto changed = changed_;
  const CheckpointProgress part = WritePart(2, 1);
  ASSERT_EQ(part.state, CheckpointProgress::State::kPrepared);
  EXPECT_EQ(part.base_checkpoint_id, 1u);
  EXPECT_EQ(part.rows, full.rows);
  EXPECT_GT(part.files.files, full.files.files);
  EXPECT_LT(part.written_bytes, part.files.bytes);
  auto newest = RowDatabaseReader::Open({InPart(2, "delta-001-001")});
  ASSERT_TRUE(newest.ok()) << newest.status();
  const auto metadata = ReadCheckpointMetadata(*newest);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->increment, 1);
  for (const CheckpointTable& table : metadata->tables) {
    const auto of_table = changed.find(table.name);
    EXPECT_EQ(table.changed_rows,
              of_table == changed.end() ? 0 : static_cast<int64_t>(of_table->second.size()))
        << table.name;
  }
  ExpectLoads(1);
  ExpectLoads(2);
}

TEST_F(PartIncrementTest, LacksTheRowsOfRetiredLabels) {
  const auto retire = [this](const std::string& labels) {
    CreateModelCommand command = SampleCreate();
    command.grow = true;
    command.spec.retired_labels = labels;
    ASSERT_TRUE(core_->Apply(command).reply->status.ok());
  };
  Step();
  const CheckpointProgress full = WritePart(1, 0);
  retire("3-40");
  Step();
  EXPECT_EQ(WritePart(2, 1, [&] { retire("3-60"); }).base_checkpoint_id, 1u);
  EXPECT_LT(images_->Progress(2).rows, full.rows);
  ExpectLoads(2);
  EXPECT_EQ(WritePart(3, 2).base_checkpoint_id, 2u);
  ExpectLoads(3);
  EXPECT_EQ(WritePart(4, 0).base_checkpoint_id, 0u);
  EXPECT_LT(images_->Progress(4).files.bytes, full.files.bytes);
  ExpectLoads(4);
  retire("40");
  EXPECT_EQ(WritePart(5, 4).base_checkpoint_id, 4u);
  ExpectLoads(5);
}

TEST_F(PartIncrementTest, StandsForItselfWhenItsBasesAreGone) {
  EXPECT_EQ(WritePart(1, 0).base_checkpoint_id, 0u);
  for (uint64_t checkpoint_id = 2; checkpoint_id <= 6; ++checkpoint_id) {
    Scatter();
    Scatter("input");
    EXPECT_EQ(WritePart(checkpoint_id, checkpoint_id - 1).base_checkpoint_id, checkpoint_id - 1);
    ExpectLoads(checkpoint_id);
    ASSERT_TRUE(images_->Retain({checkpoint_id - 1, checkpoint_id}).ok());
    ExpectLoads(checkpoint_id - 1);
  }
  Open();
  EXPECT_EQ(images_->Progress(6).base_checkpoint_id, 5u);
  ExpectLoads(6);
  const std::string rows = LargestTable(InPart(6, "model-001"));
  struct stat file = {};
  ASSERT_EQ(stat(rows.c_str(), &file), 0);
  EXPECT_EQ(file.st_nlink, 2u) << "of checkpoint_ids 5 and 6, the others' are gone";
}

TEST_F(PartIncrementTest, ComesBackBitForBitAfterTraining) {
  for (int i = 0; i < 5; ++i) Step();
  EXPECT_EQ(WritePart(1, 0).base_checkpoint_id, 0u);
  for (uint64_t checkpoint_id = 2; checkpoint_id <= 4; ++checkpoint_id) {
    Step();
    EXPECT_EQ(WritePart(checkpoint_id, checkpoint_id - 1).base_checkpoint_id, checkpoint_id - 1);
    ExpectLoads(checkpoint_id);
  }
}

TEST_F(PartIncrementTest, IsOfTheCutWhateverChangesBeforeItIsWritten) {
  EXPECT_EQ(WritePart(1, 0).base_checkpoint_id, 0u);
  Scatter();
  EXPECT_EQ(WritePart(2, 1, [this] { Step(); }).base_checkpoint_id, 1u);
  ExpectLoads(2);
  // What changed meanwhile belongs to the next one.
  EXPECT_EQ(WritePart(3, 2).base_checkpoint_id, 2u);
  ExpectLoads(3);
}

// The checkpoint of a cut failed on another shard: what had changed until then is not lost.
TEST_F(PartIncrementTest, ACutThatWasNotCommittedLosesNothing) {
  EXPECT_EQ(WritePart(1, 0).base_checkpoint_id, 0u);
  Scatter();
  EXPECT_EQ(WritePart(2, 1).base_checkpoint_id, 1u);
  Scatter("input");
  EXPECT_EQ(WritePart(3, 1).base_checkpoint_id, 1u);
  ExpectLoads(3);
  // The number was not committed either, and is taken again.
  Scatter();
  EXPECT_EQ(WritePart(3, 1).base_checkpoint_id, 1u);
  ExpectLoads(3);
}

TEST_F(PartIncrementTest, AllRowsAreWrittenWhenMoreThanHalfHaveChanged) {
  ASSERT_TRUE(core_->Apply(DropModelCommand{.model = "idle"}).reply->status.ok());
  EXPECT_EQ(WritePart(1, 0).base_checkpoint_id, 0u);
  Scatter();
  EXPECT_EQ(WritePart(2, 1).base_checkpoint_id, 1u);
  for (int i = 0; i < 40; ++i) {
    Scatter();
    Scatter("input");
  }
  const CheckpointProgress part = WritePart(3, 2);
  EXPECT_EQ(part.base_checkpoint_id, 0u);
  EXPECT_EQ(part.written_bytes, part.files.bytes);
  ExpectLoads(3);
}

TEST_F(PartIncrementTest, AllRowsAreWrittenWhereTheBaseIsNotWhatThisProcessWrote) {
  WriteTwo();
  Open();
  EXPECT_EQ(WritePart(3, 2).base_checkpoint_id, 0u) << "written by another process";
  EXPECT_EQ(WritePart(4, 7).base_checkpoint_id, 0u) << "never seen";
  fs::remove(LargestTable(InPart(4, "model-001")));
  EXPECT_EQ(WritePart(5, 4).base_checkpoint_id, 0u) << "a file is gone";
  ExpectLoads(5);
  fs::resize_file(LargestTable(InPart(5, "model-001")), 100);
  EXPECT_EQ(WritePart(6, 5).base_checkpoint_id, 0u) << "a file is cut";
  ExpectLoads(6);
  ASSERT_TRUE(images_->Retain({}).ok());
  EXPECT_EQ(WritePart(7, 6).base_checkpoint_id, 0u) << "the part is gone";
  // A list that is not the one that the manifest pins.
  ASSERT_TRUE(WriteFileList(images_->PathOf(7)).ok());
  std::ofstream(InPart(7, "surplus")) << "x";
  const uint32_t checksum = images_->Progress(7).files.checksum;
  ASSERT_NE(WriteFileList(images_->PathOf(7))->checksum, checksum);
  EXPECT_EQ(WritePart(8, 7).base_checkpoint_id, 0u) << "another list";
  ExpectLoads(8);
}

TEST_F(PartIncrementTest, AllRowsAreWrittenWhenTheModelsAreOthers) {
  EXPECT_EQ(WritePart(1, 0).base_checkpoint_id, 0u);
  CreateModelCommand more = SampleCreate();
  more.spec.name = "more";
  ASSERT_TRUE(core_->Apply(more).reply->status.ok());
  EXPECT_EQ(WritePart(2, 1).base_checkpoint_id, 0u);
  Scatter();
  EXPECT_EQ(WritePart(3, 2).base_checkpoint_id, 2u);
  ASSERT_TRUE(core_->Apply(DropModelCommand{.model = "more"}).reply->status.ok());
  EXPECT_EQ(WritePart(4, 3).base_checkpoint_id, 0u);
  // Its rows are others than those of the cut, whatever its name.
  ASSERT_TRUE(core_->Apply(DropModelCommand{.model = "idle"}).reply->status.ok());
  CreateModelCommand idle = SampleCreate();
  idle.spec.name = "idle";
  ASSERT_TRUE(core_->Apply(idle).reply->status.ok());
  EXPECT_EQ(WritePart(5, 4).base_checkpoint_id, 0u);
  ExpectLoads(5);
}

TEST_F(PartIncrementTest, ARestoredStateBeginsWithAllRows) {
  WriteTwo();
  auto restored = std::make_unique<ShardCore>(SampleOptions());
  ASSERT_TRUE(images_->Load(2, *restored).status().ok());
  core_ = std::move(restored);
  EXPECT_EQ(WritePart(3, 2).base_checkpoint_id, 0u);
  ExpectLoads(3);
}

TEST_F(PartIncrementTest, DamageIsNamedAndNothingIsLoaded) {
  WriteTwo();
  const auto refused = [this](absl::string_view what) {
    EXPECT_TRUE(absl::IsDataLoss(images_->Verify(2).status())) << what;
    ShardCore loaded(SampleOptions());
    EXPECT_TRUE(absl::IsDataLoss(images_->Load(2, loaded).status())) << what;
    EXPECT_TRUE(absl::IsDataLoss(InspectImage(images_->PathOf(2)).status())) << what;
  };
  fs::copy(images_->PathOf(2), Path("whole"), fs::copy_options::recursive);
  const auto mend = [this] {
    fs::remove_all(images_->PathOf(2));
    fs::copy(Path("whole"), images_->PathOf(2), fs::copy_options::recursive);
    ExpectLoads(2);
  };
  for (const char* directory : {"delta-001-001", "model-001"}) {
    const std::string table = LargestTable(InPart(2, directory));
    std::string bytes = Read(table);
    bytes[bytes.size() / 3] ^= 1;
    fs::remove(table);  // the base shares it
    Write(table, bytes);
    refused("a flipped bit");
    mend();
    fs::resize_file(LargestTable(InPart(2, directory)), 100);
    refused("a cut file");
    mend();
    fs::remove_all(InPart(2, directory));
    refused("no directory");
    mend();
  }
  // An increment of another checkpoint in the place of this one's.
  Scatter();
  ASSERT_EQ(WritePart(3, 1).base_checkpoint_id, 1u);
  fs::remove_all(InPart(2, "delta-001-001"));
  fs::copy(InPart(3, "delta-001-001"), InPart(2, "delta-001-001"));
  EXPECT_TRUE(absl::IsDataLoss(images_->Verify(2).status()));
  fs::remove_all(InPart(2, "model-001"));
  fs::copy(InPart(2, "delta-001-001"), InPart(2, "model-001"), fs::copy_options::recursive);
  refused("an increment in the place of all rows");
  ExpectLoads(1);
}

TEST_F(PartIncrementTest, AnIncrementNamesItsBase) {
  WriteTwo();
  const auto head = ReadImageHead(images_->PathOf(2));
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ(head->increments, 1);
  EXPECT_EQ(head->base_checkpoint_id, 1u);
  ASSERT_EQ(head->models.size(), 2u);
  EXPECT_EQ(head->models[0].name, "idle");
  EXPECT_EQ(head->models[1].name, "m");
}

// A process that stops while it writes must leave nothing that looks whole.
TEST_F(PartIncrementTest, ASnapshotThatWasGivenUpIsNotWritten) {
  for (const uint64_t base : {0, 1}) {
    if (base == 1) {
      ASSERT_EQ(WritePart(1, 0).state, CheckpointProgress::State::kPrepared);
    }
    const auto snapshot = ShardSnapshot::TakeCut(0, *core_, 2, {.checkpoint_id = base});
    Scatter();
    snapshot->Abandon();
    const std::string directory = Path(absl::StrCat("image-", base));
    const LinkedBase linked;
    const auto written =
        base == 0 ? snapshot->Write(directory) : snapshot->WriteIncrement(directory, linked);
    snapshot->Release();
    EXPECT_TRUE(absl::IsCancelled(written.status())) << written.status();
    EXPECT_FALSE(fs::exists(absl::StrCat(directory, "/state")));
  }
}

}  // namespace
}  // namespace dslide::shard

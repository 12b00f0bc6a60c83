#include "services/shard/image/model_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/protocol/reason_words.h"
#include "core/system/sealed_text.h"
#include "services/shard/storage/storage_metadata.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(directory_);
    Open();
    Train(*core_, 5);
  }
  void TearDown() override { fs::remove_all(directory_); }

  // As a start of a shard does.
  void Open() {
    auto images = ImageStore::Open(ImageStore::DirectoryIn(directory_.string()));
    ASSERT_TRUE(images.ok()) << images.status();
    images_ = *std::move(images);
    store_ = std::make_unique<ModelCheckpoints>(images_.get());
  }

  void Train(ShardCore& core, int steps) { Train(core, steps, trainer_); }
  void Train(ShardCore& core, int steps, SampleTrainer& trainer) {
    for (int i = 0; i < steps; ++i) {
      ++step_;
      for (StepOp op : {StepOp(trainer.EmbedForward()), StepOp(trainer.HeadForward()),
                        StepOp(trainer.HeadBackward()), StepOp(trainer.EmbedBackward()),
                        StepOp(trainer.DenseScatter())}) {
        const Answer answer = core.Apply(trainer.Step(std::move(op), step_, step_));
        ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
      }
    }
  }

  ImageSize Write(const std::string& name) {
    const auto size = store_->Write(*core_->FindModel("m"), name);
    EXPECT_TRUE(size.ok()) << size.status();
    return size.value_or(ImageSize());
  }

  absl::Status LoadInto(ShardCore& core, const std::string& name) {
    auto model = store_->Load(core, "m", name);
    if (!model.ok()) return model.status();
    core.InstallModel(*std::move(model));
    return absl::OkStatus();
  }

  fs::path CheckpointPath(const std::string& name) const {
    return directory_ / "images" / absl::StrCat("m.", name);
  }
  fs::path RowsPath(const std::string& name) const { return CheckpointPath(name) / "model-000"; }

  const fs::path directory_ =
      fs::path(::testing::TempDir()) /
      ("checkpoint_test_" + std::to_string(getpid()) + "_" +
       std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
  SampleTrainer trainer_;
  int64_t step_ = 0;
  std::unique_ptr<ShardCore> core_ = SampleCore(trainer_);
  std::unique_ptr<ImageStore> images_;
  std::unique_ptr<ModelCheckpoints> store_;
};

TEST_F(CheckpointTest, OthersOfAKindGoAndTheRestStays) {
  for (const char* name : {"best-a", "best-b", "best-c", "mine"}) Write(name);
  ASSERT_TRUE(store_->RemoveOthers("other", "best-", {}).ok());
  ASSERT_TRUE(store_->RemoveOthers("m", "best-", {"best-b"}).ok());
  EXPECT_THAT(images_->Labels(), ElementsAre("m.best-b", "m.mine"));
}

TEST_F(CheckpointTest, AnEmptyShardGetsEqualRowsBack) {
  const ImageSize size = Write("one");
  EXPECT_GT(size.rows, 0);
  EXPECT_GT(size.bytes, size.rows * kSampleDim * 4);
  ShardCore fresh(SampleOptions());
  ASSERT_TRUE(LoadInto(fresh, "one").ok());
  EXPECT_EQ(fresh.Digest(), core_->Digest());
  EXPECT_EQ(fresh.FindModel("m")->spec(), core_->FindModel("m")->spec());
  EXPECT_EQ(fresh.FindModel("m")->slot_maps(), core_->FindModel("m")->slot_maps());
}

TEST_F(CheckpointTest, ARestoredShardGoesOnLikeOneThatNeverStopped) {
  Write("one");
  // The one that goes on rebuilds its hash tables where the other one loads.
  ASSERT_TRUE(LoadInto(*core_, "one").ok());
  SampleTrainer same = SampleTrainer(1);
  const auto other = SampleCore(trainer_);
  ASSERT_TRUE(LoadInto(*other, "one").ok());
  for (int i = 0; i < 8; ++i) {
    SampleTrainer a(7, i), b(7, i);
    const auto key = SampleClient(static_cast<uint8_t>(100 + i));
    for (ShardCore* core : {core_.get(), other.get()}) {
      SampleTrainer& trainer = core == core_.get() ? a : b;
      core->Apply(HelloCommand{.job = "job", .client = key});
      for (StepOp op : {StepOp(trainer.HeadForward()), StepOp(trainer.HeadBackward())}) {
        StepCommand command = trainer.Step(std::move(op), 1);
        command.envelope.client = key;
        const Answer answer = core->Apply(command);
        ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
      }
    }
  }
  EXPECT_EQ(core_->Digest(), other->Digest());
}

TEST_F(CheckpointTest, LoadingReplacesTheRowsAndWritingReplacesTheCheckpoint) {
  Write("one");
  const uint64_t first = core_->Digest();
  Train(*core_, 3);
  const uint64_t second = core_->Digest();
  ASSERT_NE(first, second);
  ASSERT_TRUE(LoadInto(*core_, "one").ok());
  EXPECT_EQ(core_->Digest(), first);
  Train(*core_, 2);
  const uint64_t third = core_->Digest();
  Write("one");
  Train(*core_, 1);
  ASSERT_TRUE(LoadInto(*core_, "one").ok());
  EXPECT_EQ(core_->Digest(), third);
  EXPECT_THAT(store_->ModelsWith("one"), ElementsAre("m"));
  EXPECT_THAT(store_->ModelsWith("latest"), ElementsAre());
}

// Whatever labels were retired when it was written.
TEST_F(CheckpointTest, LabelsStayRetiredAndInUseAsTheyAre) {
  const auto retire = [this](const std::string& labels) {
    CreateModelCommand command = SampleCreate();
    command.grow = true;
    command.spec.retired_labels = labels;
    ASSERT_TRUE(core_->Apply(command).reply->status.ok());
  };
  const auto present = [this] { return core_->FindModel("m")->tables()[2].stored().present(); };
  const int64_t all = present();
  Write("with");
  retire("0-50");
  const int64_t fewer = present();
  ASSERT_LT(fewer, all);
  const uint64_t without = core_->Digest();
  Write("without");
  ASSERT_TRUE(LoadInto(*core_, "with").ok());
  EXPECT_EQ(core_->FindModel("m")->spec().retired_labels, "0-50");
  EXPECT_EQ(present(), fewer);
  EXPECT_EQ(core_->Digest(), without);
  retire("");
  const uint64_t anew = core_->Digest();
  ASSERT_TRUE(LoadInto(*core_, "without").ok());
  EXPECT_EQ(core_->FindModel("m")->spec().retired_labels, "");
  EXPECT_EQ(present(), all);
  EXPECT_EQ(core_->Digest(), anew);
}

TEST_F(CheckpointTest, WhatIsNotThereIsNotFound) {
  const absl::Status missing = LoadInto(*core_, "none");
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_EQ(ReasonOf(missing), reason::kUnknownCheckpoint);
  Write("one");
  ASSERT_TRUE(store_->Remove("m", "one").ok());
  ASSERT_TRUE(store_->Remove("m", "one").ok());
  EXPECT_TRUE(absl::IsNotFound(LoadInto(*core_, "one")));
}

TEST_F(CheckpointTest, OtherShardsSlotsAndModelsAreRefused) {
  Write("one");
  ShardCore other_shard(SampleOptions());
  other_shard.Apply(SetOwnershipCommand{.shard = ShardId(1), .generation = 1});
  absl::Status refused = LoadInto(other_shard, "one");
  EXPECT_EQ(ReasonOf(refused), reason::kSlotsDiffer);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("of shard 0, this is shard 1"));

  ShardCore other_slots(SampleOptions());
  other_slots.Apply(SampleCreate(SampleSpec(), 0, {1, 1, 1}));
  const uint64_t digest = other_slots.Digest();
  refused = LoadInto(other_slots, "one");
  EXPECT_EQ(ReasonOf(refused), reason::kSlotsDiffer);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("dealt to 2 shards, the model's to 3"));
  EXPECT_EQ(other_slots.Digest(), digest);

  ShardCore other_model(SampleOptions());
  ModelSpec spec = SampleSpec();
  spec.magnitude_bound = 50;
  other_model.Apply(SampleCreate(spec));
  EXPECT_EQ(ReasonOf(LoadInto(other_model, "one")), reason::kModelDiffers);
}

// Changes one byte of a file.
void Flip(const fs::path& file, uint64_t offset) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(stream.get() ^ 0x10);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(byte);
}

std::vector<fs::path> FilesOf(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_F(CheckpointTest, AFlippedByteIsReportedOrHarmless) {
  Write("one");
  const uint64_t digest = core_->Digest();
  const fs::path saved = directory_ / "saved";
  fs::copy(RowsPath("one"), saved);
  CounterRng rng(4);
  int reported = 0;
  int tried = 0;
  for (const fs::path& file : FilesOf(RowsPath("one"))) {
    const uint64_t size = fs::file_size(file);
    const bool is_rows = file.extension() == ".sst";
    for (int i = 0; i < (is_rows ? 60 : 8); ++i) {
      Flip(file, rng.NextBelow(size));
      ShardCore fresh(SampleOptions());
      const absl::Status loaded = LoadInto(fresh, "one");
      if (loaded.ok()) {
        EXPECT_EQ(fresh.Digest(), digest) << file;
      } else {
        EXPECT_TRUE(absl::IsDataLoss(loaded)) << loaded;
        EXPECT_THAT(std::string(loaded.message()), HasSubstr("m.one"));
        EXPECT_TRUE(fresh.models().empty());
        ++reported;
      }
      ++tried;
      fs::copy_file(saved / file.filename(), file, fs::copy_options::overwrite_existing);
    }
  }
  EXPECT_GT(reported, 60) << "of " << tried;
}

TEST_F(CheckpointTest, MissingCutAndSwappedFilesAreReported) {
  Write("one");
  const fs::path saved = directory_ / "saved";
  fs::copy(RowsPath("one"), saved);
  const auto restore = [&] {
    fs::remove_all(RowsPath("one"));
    fs::copy(saved, RowsPath("one"));
  };
  int cases = 0;
  for (const fs::path& file : FilesOf(saved)) {
    const std::string name = file.filename();
    const bool needed =
        file.extension() == ".sst" || name == "CURRENT" || name.find("MANIFEST") == 0;
    if (!needed) continue;
    ShardCore fresh(SampleOptions());
    fs::remove(RowsPath("one") / name);
    EXPECT_TRUE(absl::IsDataLoss(LoadInto(fresh, "one"))) << "without " << name;
    restore();
    fs::resize_file(RowsPath("one") / name, fs::file_size(file) / 2);
    EXPECT_TRUE(absl::IsDataLoss(LoadInto(fresh, "one"))) << "half of " << name;
    restore();
    EXPECT_TRUE(fresh.models().empty());
    ++cases;
  }
  EXPECT_GE(cases, 3);
}

TEST_F(CheckpointTest, ADirectoryOfAnotherModelIsReported) {
  Write("one");
  fs::copy(CheckpointPath("one"), directory_ / "images" / "other.one", fs::copy_options::recursive);
  ShardCore fresh(SampleOptions());
  const auto loaded = store_->Load(fresh, "other", "one");
  EXPECT_TRUE(absl::IsDataLoss(loaded.status()));
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("of model \"m\""));
}

TEST_F(CheckpointTest, OneThatIsBeingReplacedIsThere) {
  Write("one");
  const auto exists = [&](const char* model, const char* name) {
    return ModelCheckpoints::Exists(directory_.string(), model, name);
  };
  EXPECT_TRUE(exists("m", "one"));
  fs::rename(CheckpointPath("one"), directory_ / "images" / ".old-m.one");
  EXPECT_TRUE(exists("m", "one"));
  EXPECT_FALSE(exists("m", "other"));
  EXPECT_FALSE(exists("other", "one"));
  EXPECT_FALSE(ModelCheckpoints::Exists("/nonexistent", "m", "one"));
  Open();
  ShardCore fresh(SampleOptions());
  EXPECT_TRUE(LoadInto(fresh, "one").ok());
  EXPECT_EQ(fresh.Digest(), core_->Digest());
}

TEST(CheckpointMetadataTest, OtherFormatsAreRefused) {
  const SampleTrainer trainer;
  const auto core = SampleCore(trainer);
  const std::string bytes = EncodeMetadata(DescribeForCheckpoint(*core->FindModel("m")));
  auto json = nlohmann::ordered_json::parse(bytes.substr(0, bytes.size() - 4));
  EXPECT_EQ(json["format"], 1);
  for (const int64_t version : {0, 2}) {
    json["format"] = version;
    const absl::Status refused = DecodeMetadata(SealBytes(json.dump())).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(absl::StrCat("format ", version, ", this version reads format 1")));
  }
}

TEST(CheckpointMetadataTest, AnIncrementSaysWhatHasChanged) {
  const SampleTrainer trainer;
  const auto core = SampleCore(trainer);
  CheckpointMetadata metadata = DescribeForCheckpoint(*core->FindModel("m"));
  metadata.increment = 2;
  metadata.tables[1].changed_rows = 3;
  metadata.tables[1].changed_digest = 0xfedcba9876543210;
  const std::string bytes = EncodeMetadata(metadata);
  const auto decoded = DecodeMetadata(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->increment, 2);
  EXPECT_EQ(decoded->tables[1].changed_rows, 3);
  EXPECT_EQ(decoded->tables[1].changed_digest, 0xfedcba9876543210);
  EXPECT_EQ(EncodeMetadata(*decoded), bytes);
}

// A core whose sample model stores its rows in `precision`.
std::unique_ptr<ShardCore> CoreIn(RowPrecision precision) {
  auto core = std::make_unique<ShardCore>(SampleOptions());
  CreateModelCommand create = SampleCreate();
  for (TableSpec& table : create.spec.tables) table.precision = precision;
  EXPECT_TRUE(
      core->Apply(SetOwnershipCommand{.shard = ShardId(0), .generation = 7}).reply->status.ok());
  EXPECT_TRUE(core->Apply(create).reply->status.ok());
  return core;
}

TEST_F(CheckpointTest, EveryPrecisionComesBackAndNoOtherIsTaken) {
  const RowPrecision all[] = {RowPrecision::kF32, RowPrecision::kBf16Weights, RowPrecision::kBf16};
  for (const RowPrecision precision : all) {
    core_ = CoreIn(precision);
    SampleTrainer trainer;
    ASSERT_TRUE(core_->Apply(trainer.Hello()).reply->status.ok());
    Train(*core_, 3, trainer);
    Write("one");
    ShardCore fresh(SampleOptions());
    ASSERT_TRUE(LoadInto(fresh, "one").ok());
    EXPECT_EQ(fresh.Digest(), core_->Digest());
    for (const RowPrecision other : all) {
      if (other == precision) continue;
      const auto present = CoreIn(other);
      const uint64_t digest = present->Digest();
      const absl::Status status = LoadInto(*present, "one");
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("precision is \"", PrecisionName(precision), "\", not \"",
                                         PrecisionName(other), "\"")));
      EXPECT_EQ(present->Digest(), digest);
    }
  }
}

TEST(CheckpointMetadataTest, ComesBackAndNoticesEveryFlippedByte) {
  const SampleTrainer trainer;
  const auto core = SampleCore(trainer);
  const CheckpointMetadata metadata = DescribeForCheckpoint(*core->FindModel("m"));
  const std::string bytes = EncodeMetadata(metadata);
  const auto decoded = DecodeMetadata(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->spec, metadata.spec);
  EXPECT_EQ(decoded->slot_maps, metadata.slot_maps);
  ASSERT_EQ(decoded->tables.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(decoded->tables[i].name, metadata.tables[i].name);
    EXPECT_EQ(decoded->tables[i].digest, metadata.tables[i].digest);
    EXPECT_EQ(decoded->tables[i].record_bytes, metadata.tables[i].record_bytes);
    EXPECT_EQ(decoded->tables[i].precision, metadata.tables[i].precision);
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] ^= 1;
    EXPECT_TRUE(absl::IsDataLoss(DecodeMetadata(bad).status())) << i;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeMetadata("").status()));
}

}  // namespace
}  // namespace dslide::shard

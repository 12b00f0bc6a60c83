// Each kind of damage to a data directory is named, with the place and what to do, and nothing is
// changed by looking.

#include "services/inspect/directory_examination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "core/system/sealed_text.h"
#include "services/common/files/directory_lock.h"
#include "services/coordinator/checkpoints/manifest_store.h"
#include "services/coordinator/models/catalog_store.h"
#include "services/shard/durability/log_directory.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/model_checkpoints.h"
#include "services/shard/image/shard_image.h"
#include "tests/unit/services/coordinator/fakes.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Read(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void Write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

void FlipBit(const fs::path& path) {
  std::string content = Read(path);
  ASSERT_FALSE(content.empty()) << path;
  content[content.size() / 2] ^= 0x10;
  Write(path, content);
}

// The largest file below a directory whose name ends so.
fs::path LargestOf(const fs::path& directory, const std::string& extension) {
  fs::path largest;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != extension) continue;
    if (largest.empty() || entry.file_size() > fs::file_size(largest)) largest = entry.path();
  }
  return largest;
}

// What is on the disk, to see that nobody has changed it.
std::map<std::string, std::string> Contents(const fs::path& directory) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    contents[entry.path().string()] = entry.is_directory() ? "directory" : Read(entry.path());
  }
  return contents;
}

class DirectoryExaminationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  // Of one severity, as "where: what".
  static std::vector<std::string> Of(const Findings& findings, Severity severity) {
    std::vector<std::string> found;
    for (const Finding& finding : findings.all()) {
      if (finding.severity != severity) continue;
      found.push_back(absl::StrCat(finding.where, ": ", finding.what));
      if (severity >= Severity::kWarning) {
        EXPECT_NE(finding.remedy, "") << found.back();
      }
    }
    return found;
  }
  // The only error after the damage, which is undone afterwards.
  std::string ErrorAfter(const std::function<void()>& damage,
                         const std::function<Findings(const std::string&)>& examine) {
    const fs::path kept = absl::StrCat(root_.string(), ".kept");
    fs::remove_all(kept);
    fs::copy(root_, kept, fs::copy_options::recursive);
    damage();
    const auto before = Contents(root_);
    const Findings findings = examine(root_.string());
    EXPECT_EQ(Contents(root_), before);
    const std::vector<std::string> errors = Of(findings, Severity::kError);
    fs::remove_all(root_);
    fs::rename(kept, root_);
    EXPECT_EQ(errors.size(), 1u) << ::testing::PrintToString(errors);
    for (const Finding& finding : findings.all()) {
      if (finding.severity == Severity::kError) {
        EXPECT_EQ(finding.code, absl::StatusCode::kDataLoss) << finding.what;
      }
    }
    return errors.empty() ? "" : errors.front();
  }

  const fs::path root_ = absl::StrCat(::testing::TempDir(), "examined.", getpid());
};

class ShardDirectoryTest : public DirectoryExaminationTest {
 protected:
  void SetUp() override {
    DirectoryExaminationTest::SetUp();
    auto store = shard::ImageStore::Open(images_.string());
    ASSERT_TRUE(store.ok()) << store.status();
    shard::ModelCheckpoints checkpoints(store->get());
    ASSERT_TRUE(checkpoints.Write(*core_->FindModel("m"), shard::kLatestCheckpoint).ok());
    ASSERT_TRUE(shard::WriteImageOf((images_ / shard::kStoppedLabel).string(),
                                    shard::PartsWithoutRows(*core_), nullptr)
                    .ok());
    ASSERT_TRUE(shard::WriteImage(part_.string(), 0, *core_).ok());
    ASSERT_TRUE(shard::LogDirectory::Create(root_.string(), {}, *core_).ok());
  }
  std::string Error(const std::function<void()>& damage) {
    return ErrorAfter(damage, ExamineShardDirectory);
  }

  shard::SampleTrainer trainer_;
  std::unique_ptr<shard::ShardCore> core_ = shard::SampleCore(trainer_);
  const fs::path images_ = root_ / "images";
  const fs::path latest_ = images_ / "m.latest";
  const fs::path part_ = images_ / shard::CheckpointLabel(3);
  const fs::path log_ = root_ / "command_log";
  const fs::path image_ = log_ / "images" / shard::LogLabel({});
};

TEST_F(ShardDirectoryTest, AWholeOneIsAllRight) {
  EXPECT_EQ(KindOfDirectory(root_.string()), DirectoryKind::kShard);
  const auto before = Contents(root_);
  const Findings findings = ExamineShardDirectory(root_.string());
  EXPECT_EQ(Contents(root_), before);
  EXPECT_EQ(findings.worst(), Severity::kOk)
      << ::testing::PrintToString(Of(findings, Severity::kError))
      << ::testing::PrintToString(Of(findings, Severity::kWarning));
  const std::string said = ::testing::PrintToString(Of(findings, Severity::kOk));
  EXPECT_THAT(said, AllOf(HasSubstr("m.latest"), HasSubstr("1 parts of cluster checkpoints"),
                          HasSubstr("log-0000"), HasSubstr("records"),
                          HasSubstr("stopped in good order"), HasSubstr("are free")));
}

TEST_F(ShardDirectoryTest, DamagedRowsAreNamed) {
  const fs::path rows = latest_ / "model-000";
  EXPECT_THAT(Error([&] { FlipBit(LargestOf(rows, ".sst")); }), HasSubstr("m.latest: "));
  EXPECT_THAT(Error([&] { fs::remove(LargestOf(rows, ".sst")); }), HasSubstr("m.latest: "));
  EXPECT_THAT(Error([&] { fs::remove(rows / "CURRENT"); }), HasSubstr("m.latest: "));
  EXPECT_THAT(Error([&] { FlipBit(LargestOf(rows, "")); }), HasSubstr("m.latest: "));
  EXPECT_THAT(Error([&] { fs::remove(latest_ / "FILES"); }), HasSubstr("FILES is missing"));
  EXPECT_THAT(Error([&] { fs::rename(latest_, images_ / "other.latest"); }),
              AllOf(HasSubstr("other.latest: "), HasSubstr("directories were swapped")));
}

// Blocks with good checksums, and not the rows that belong there.
TEST_F(ShardDirectoryTest, RowsOfAnotherStateAreNamed) {
  EXPECT_THAT(Error([&] {
                // The metadata record and the rows are files of their own.
                auto elsewhere = shard::ImageStore::Open((root_ / "x_y").string());
                shard::ModelCheckpoints checkpoints(elsewhere->get());
                ModelSpec spec = shard::SampleSpec();
                spec.seed = 99;
                shard::ShardCore seeded(shard::SampleOptions());
                ASSERT_TRUE(seeded.Apply(shard::SampleCreate(spec)).reply->status.ok());
                ASSERT_TRUE(checkpoints.Write(*seeded.FindModel("m"), "latest").ok());
                fs::copy_file(LargestOf(root_ / "x_y", ".sst"), LargestOf(latest_, ".sst"),
                              fs::copy_options::overwrite_existing);
                fs::remove_all(root_ / "x_y");
              }),
              HasSubstr("m.latest: "));
}

TEST_F(ShardDirectoryTest, ADamagedPartOfAClusterCheckpointIsNamed) {
  EXPECT_THAT(
      Error([&] { FlipBit(part_ / "state"); }),
      AllOf(HasSubstr("checkpoint-00000000000000000003"), HasSubstr("state does not have")));
  EXPECT_THAT(Error([&] { fs::remove(part_ / "FILES"); }), HasSubstr("FILES is missing"));
  EXPECT_THAT(Error([&] { Write(part_ / "more", "x"); }), HasSubstr("more was not written"));
  EXPECT_THAT(Error([&] { fs::remove(LargestOf(part_, ".sst")); }), HasSubstr("is missing"));
}

TEST_F(ShardDirectoryTest, ADamagedLogIsNamed) {
  EXPECT_THAT(Error([&] { FlipBit(image_ / "state"); }),
              AllOf(HasSubstr("log-0000"), HasSubstr("state does not have its checksum")));
  EXPECT_THAT(Error([&] { fs::remove_all(image_); }), HasSubstr("has no image"));
  EXPECT_THAT(Error([&] { fs::remove_all(log_ / "records"); }), HasSubstr("command_log"));
  EXPECT_THAT(Error([&] { Write(log_ / "high-water", "nonsense"); }), HasSubstr("high-water"));
}

TEST_F(ShardDirectoryTest, WhatALaterVersionHasWrittenIsNotToBeGivenUp) {
  Write(part_ / "FILES", SealText("dslide files 2\n"));
  const Findings findings = ExamineShardDirectory(root_.string());
  int errors = 0;
  for (const Finding& finding : findings.all()) {
    if (finding.severity != Severity::kError) continue;
    ++errors;
    EXPECT_EQ(finding.code, absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(finding.what, HasSubstr("has format 2, this version reads format 1"));
    EXPECT_EQ(finding.remedy, "nothing is damaged: use that version");
  }
  EXPECT_EQ(errors, 1);
}

TEST_F(ShardDirectoryTest, ADamagedStopIsNamed) {
  EXPECT_THAT(Error([&] { FlipBit(images_ / "stopped" / "state"); }), HasSubstr("stopped"));
}

TEST_F(ShardDirectoryTest, ACrashWithoutALogIsNoted) {
  fs::remove_all(log_);
  fs::remove_all(images_ / "stopped");
  const Findings findings = ExamineShardDirectory(root_.string());
  EXPECT_EQ(findings.worst(), Severity::kNote);
  EXPECT_THAT(::testing::PrintToString(Of(findings, Severity::kNote)),
              HasSubstr("did not stop in good order"));
}

TEST_F(ShardDirectoryTest, LeftoversAreNotedOneByOne) {
  fs::create_directories(images_ / ".tmp-m.best");
  fs::create_directories(images_ / ".old-m.latest");
  fs::create_directories(log_ / "images" / ".tmp-log-4");
  const Findings findings = ExamineShardDirectory(root_.string());
  EXPECT_EQ(findings.worst(), Severity::kNote);
  EXPECT_THAT(Of(findings, Severity::kNote),
              ::testing::UnorderedElementsAre(HasSubstr(".tmp-m.best"), HasSubstr(".old-m.latest"),
                                              HasSubstr(".tmp-log-4")));
}

TEST_F(ShardDirectoryTest, WhatIsInUseIsLeftAlone) {
  const auto used = DirectoryLock::Take(root_.string());
  ASSERT_TRUE(used.ok()) << used.status();
  FlipBit(latest_ / "model-000" / "CURRENT");
  Findings findings = ExamineShardDirectory(root_.string());
  EXPECT_EQ(findings.worst(), Severity::kNote);
  EXPECT_THAT(::testing::PrintToString(Of(findings, Severity::kNote)),
              HasSubstr("a shard uses this directory"));
  FlipBit(part_ / "state");
  EXPECT_EQ(ExamineShardDirectory(root_.string()).worst(), Severity::kError);
}

class CoordinatorDirectoryTest : public DirectoryExaminationTest {
 protected:
  void SetUp() override {
    DirectoryExaminationTest::SetUp();
    auto catalog = coordinator::OpenCatalogStore(root_.string());
    ASSERT_TRUE(catalog.ok()) << catalog.status();
    ASSERT_TRUE((*catalog)->PutModel(coordinator::TestModel("m")).ok());
    ASSERT_TRUE((*catalog)->PutModel(coordinator::TestModel("n")).ok());
    auto manifests = coordinator::ManifestStore::Open(root_.string());
    ASSERT_TRUE(manifests.ok()) << manifests.status();
    coordinator::Manifest manifest;
    manifest.checkpoint_id = 5;
    ASSERT_TRUE((*manifests)->Commit(manifest).ok());
    manifest.checkpoint_id = 6;
    ASSERT_TRUE((*manifests)->Commit(manifest).ok());
  }
  std::string Error(const std::function<void()>& damage) {
    return ErrorAfter(damage, ExamineCoordinatorDirectory);
  }
  const fs::path checkpoints_ = root_ / "checkpoints";
};

TEST_F(CoordinatorDirectoryTest, AWholeOneIsAllRight) {
  EXPECT_EQ(KindOfDirectory(root_.string()), DirectoryKind::kCoordinator);
  const auto before = Contents(root_);
  const Findings findings = ExamineCoordinatorDirectory(root_.string());
  EXPECT_EQ(Contents(root_), before);
  EXPECT_EQ(findings.worst(), Severity::kOk)
      << ::testing::PrintToString(Of(findings, Severity::kError));
  EXPECT_THAT(::testing::PrintToString(Of(findings, Severity::kOk)),
              AllOf(HasSubstr("2 models"), HasSubstr("2 manifests")));
}

TEST_F(CoordinatorDirectoryTest, EachDamageIsNamed) {
  EXPECT_THAT(Error([&] { FlipBit(root_ / "catalog-summary"); }), HasSubstr("catalog-summary"));
  EXPECT_THAT(Error([&] { FlipBit(LargestOf(root_ / "catalog", ".sst")); }), HasSubstr("catalog"));
  EXPECT_THAT(Error([&] { fs::remove(root_ / "catalog" / "CURRENT"); }), HasSubstr("CURRENT"));
  EXPECT_THAT(Error([&] { FlipBit(checkpoints_ / "MANIFEST-00000000000000000005"); }),
              HasSubstr("MANIFEST-00000000000000000005"));
  EXPECT_THAT(Error([&] { Write(checkpoints_ / "RESTORE_COUNT", "restore_count 3\n"); }),
              HasSubstr("RESTORE_COUNT"));
  EXPECT_THAT(Error([&] { Write(checkpoints_ / "EVICTED", "aa\n"); }), HasSubstr("EVICTED"));
  EXPECT_THAT(Error([&] {
                auto manifests = coordinator::ManifestStore::OpenExisting(root_.string());
                ASSERT_TRUE((*manifests)->MarkDamage(6, "shard 1: a file is gone").ok());
              }),
              AllOf(HasSubstr("cluster checkpoint 6"), HasSubstr("shard 1: a file is gone")));
}

TEST_F(CoordinatorDirectoryTest, NothingToGoBackToIsNoted) {
  fs::remove(checkpoints_ / "MANIFEST-00000000000000000005");
  fs::remove(checkpoints_ / "MANIFEST-00000000000000000006");
  Write(checkpoints_ / "MANIFEST-00000000000000000007.new", "half");
  const Findings findings = ExamineCoordinatorDirectory(root_.string());
  EXPECT_EQ(findings.worst(), Severity::kNote);
  EXPECT_THAT(::testing::PrintToString(Of(findings, Severity::kNote)),
              AllOf(HasSubstr(".new"), HasSubstr("no cluster checkpoint to go back to")));
}

TEST_F(DirectoryExaminationTest, OtherDirectoriesAreUnknown) {
  Write(root_ / "notes.txt", "x");
  EXPECT_EQ(KindOfDirectory(root_.string()), DirectoryKind::kUnknown);
}

}  // namespace
}  // namespace dslide

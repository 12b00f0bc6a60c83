#include "services/shard/durability/checkpoint_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "services/shard/image/file_list.h"
#include "services/shard/image/image_store.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uint64_t kEpoch = 7;

class CheckpointTransferTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    from_ = MustOpen("from");
    to_ = MustOpen("to");
    target_ = std::make_unique<CheckpointTransfer>(to_.get());
    const fs::path part = from_->PathOf(kEpoch);
    fs::create_directories(part / "model-000");
    Write(part / "state", std::string(3 << 20, 'x') + "end");
    Write(part / "model-000" / "CURRENT", "MANIFEST-000005\n");
    Write(part / "model-000" / "000008.sst", "");
    const auto listed = WriteFileList(part.string());
    ASSERT_TRUE(listed.ok()) << listed.status();
    checksum_ = listed->checksum;
  }
  void TearDown() override { fs::remove_all(root_); }

  std::unique_ptr<CheckpointImages> MustOpen(const std::string& name) {
    auto store = ImageStore::Open((root_ / name).string());
    EXPECT_TRUE(store.ok()) << store.status();
    stores_.push_back(*std::move(store));
    return std::make_unique<CheckpointImages>(stores_.back().get(), &SteadyClock());
  }
  static void Write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }
  static std::string Read(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  // As a client moves one file, piece by piece.
  absl::Status Move(const std::string& path) {
    CheckpointTransfer source(from_.get());
    for (int64_t offset = 0;;) {
      const auto piece = source.Read(kEpoch, path, offset);
      if (!piece.ok()) return piece.status();
      EXPECT_LE(static_cast<int64_t>(piece->size()), kCheckpointPieceBytes);
      if (piece->empty() && offset > 0) return absl::OkStatus();
      const absl::Status written = target_->Write(kEpoch, path, offset, *piece);
      if (!written.ok() || piece->empty()) return written;
      offset += static_cast<int64_t>(piece->size());
    }
  }
  void MoveAll() {
    for (const char* path : {"state", "model-000/CURRENT", "model-000/000008.sst", "FILES"}) {
      const absl::Status moved = Move(path);
      ASSERT_TRUE(moved.ok()) << path << ": " << moved;
    }
  }

  const fs::path root_ = absl::StrCat(::testing::TempDir(), "transfer.", getpid());
  std::vector<std::unique_ptr<ImageStore>> stores_;
  std::unique_ptr<CheckpointImages> from_;
  std::unique_ptr<CheckpointImages> to_;
  uint32_t checksum_ = 0;
  std::unique_ptr<CheckpointTransfer> target_;
};

TEST_F(CheckpointTransferTest, WhatIsMovedIsTheSame) {
  EXPECT_TRUE(absl::IsNotFound(target_->Adopt(kEpoch, checksum_).status()));
  MoveAll();
  // Not before all of it is there and asked for.
  EXPECT_TRUE(to_->List().empty());
  const auto adopted = target_->Adopt(kEpoch, checksum_);
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(adopted->files, 3);
  EXPECT_THAT(to_->List(), ::testing::ElementsAre(kEpoch));
  EXPECT_EQ(Read(fs::path(to_->PathOf(kEpoch)) / "state"),
            Read(fs::path(from_->PathOf(kEpoch)) / "state"));
  EXPECT_FALSE(fs::exists(to_->ArrivalPathOf(kEpoch)));
  // Again, as after a lost answer.
  EXPECT_TRUE(target_->Adopt(kEpoch, checksum_).ok());
}

TEST_F(CheckpointTransferTest, WhatDiffersIsNotTakenIn) {
  MoveAll();
  EXPECT_TRUE(absl::IsDataLoss(target_->Adopt(kEpoch, checksum_ + 1).status()));
  EXPECT_TRUE(to_->List().empty());
  // Nothing of it is in the way of the next attempt.
  EXPECT_FALSE(fs::exists(to_->ArrivalPathOf(kEpoch)));
  MoveAll();
  ASSERT_TRUE(target_->Write(kEpoch, "state", 5, "y").ok());
  const auto changed = target_->Adopt(kEpoch, checksum_);
  EXPECT_TRUE(absl::IsDataLoss(changed.status()));
  EXPECT_THAT(std::string(changed.status().message()), HasSubstr("state"));
  EXPECT_TRUE(to_->List().empty());
  MoveAll();
  EXPECT_TRUE(target_->Adopt(kEpoch, checksum_).ok());
}

TEST_F(CheckpointTransferTest, ADamagedImageIsReplacedAndAWholeOneStays) {
  MoveAll();
  ASSERT_TRUE(target_->Adopt(kEpoch, checksum_).ok());
  Write(fs::path(to_->PathOf(kEpoch)) / "state", "rotten");
  const auto damaged = target_->Adopt(kEpoch, checksum_);
  EXPECT_TRUE(absl::IsDataLoss(damaged.status())) << damaged.status();
  MoveAll();
  ASSERT_TRUE(target_->Adopt(kEpoch, checksum_).ok());
  EXPECT_TRUE(to_->Verify(kEpoch).ok());
  // What arrives beside a whole image is thrown away.
  ASSERT_TRUE(target_->Write(kEpoch, "state", 0, "other").ok());
  ASSERT_TRUE(target_->Adopt(kEpoch, checksum_).ok());
  EXPECT_TRUE(to_->Verify(kEpoch).ok());
  EXPECT_FALSE(fs::exists(to_->ArrivalPathOf(kEpoch)));
}

TEST_F(CheckpointTransferTest, NoPathLeadsOutOfTheImage) {
  Write(root_ / "secret", "x");
  for (const char* path : {"", "..", "../../secret", "/etc/passwd", "model-000/../../x", "a/b/c"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(target_->Read(kEpoch, path, 0).status())) << path;
    EXPECT_TRUE(absl::IsInvalidArgument(target_->Write(kEpoch, path, 0, "x"))) << path;
  }
  CheckpointTransfer source(from_.get());
  fs::create_symlink(root_ / "secret", fs::path(from_->PathOf(kEpoch)) / "link");
  EXPECT_FALSE(source.Read(kEpoch, "link", 0).ok());
  EXPECT_TRUE(absl::IsNotFound(source.Read(kEpoch, "absent", 0).status()));
  EXPECT_TRUE(absl::IsNotFound(source.Read(kEpoch + 1, "state", 0).status()));
}

TEST_F(CheckpointTransferTest, PiecesAreBoundedAndInOrder) {
  EXPECT_TRUE(absl::IsInvalidArgument(target_->Write(kEpoch, "state", 1, "gap")));
  EXPECT_TRUE(absl::IsInvalidArgument(target_->Write(kEpoch, "state", -1, "x")));
  EXPECT_TRUE(absl::IsInvalidArgument(
      target_->Write(kEpoch, "state", 0, std::string(kCheckpointPieceBytes + 1, 'x'))));
  ASSERT_TRUE(target_->Write(kEpoch, "state", 0, "first").ok());
  // Repeated, as after a lost answer.
  ASSERT_TRUE(target_->Write(kEpoch, "state", 0, "first").ok());
  ASSERT_TRUE(target_->Write(kEpoch, "state", 5, "second").ok());
  ASSERT_TRUE(target_->Write(kEpoch, "state", 5, "second").ok());
  EXPECT_EQ(Read(fs::path(to_->ArrivalPathOf(kEpoch)) / "state"), "firstsecond");
  // Swept at the next start.
  to_ = MustOpen("to");
  EXPECT_FALSE(fs::exists(to_->ArrivalPathOf(kEpoch)));
}

}  // namespace
}  // namespace dslide::shard

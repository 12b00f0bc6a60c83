#include "services/shard/log/high_water.h"

#include <gmock/gmock.h>

#include "tests/unit/services/shard/log/log_samples.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

class HighWaterTest : public LogDirectoryTest {
 protected:
  std::unique_ptr<HighWaterFile> Open() {
    auto file = HighWaterFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  void Flip(size_t at) {
    std::string content = Read(path_);
    content[at] = static_cast<char>(content[at] ^ 1);
    Write(path_, content);
  }

  const std::string path_ = (root_ / "mark").string();
};

TEST_F(HighWaterTest, KeepsTheHighestMarks) {
  ASSERT_TRUE(HighWaterFile::Create(path_, {}).ok());
  auto file = Open();
  for (uint64_t lsn = 1; lsn <= 10; ++lsn) {
    ASSERT_TRUE(file->SetDurable(lsn).ok());
    EXPECT_EQ(HighWaterFile::Read(path_)->durable, lsn) << "readable before it is synced";
    if (lsn % 3 == 0) {
      ASSERT_TRUE(file->Sync().ok());
    }
  }
  ASSERT_TRUE(file->SetDurable(4).ok());
  ASSERT_TRUE(file->SetFirst(6).ok());
  ASSERT_TRUE(file->SetFirst(2).ok());
  const auto mark = HighWaterFile::Read(path_);
  EXPECT_EQ(mark->durable, 10u);
  EXPECT_EQ(mark->first, 6u);
  EXPECT_FALSE(mark->half_damaged);
  file = nullptr;
  EXPECT_EQ(Open()->mark().durable, 10u);
}

TEST_F(HighWaterTest, ATornWriteCostsTheNewestSlotAtMost) {
  ASSERT_TRUE(HighWaterFile::Create(path_, {}).ok());
  const auto file = Open();
  ASSERT_TRUE(file->SetDurable(5).ok());
  ASSERT_TRUE(file->Sync().ok());
  // Between two syncs all writes go to one slot, and the other one keeps what was synced.
  std::string synced;
  for (uint64_t lsn = 6; lsn < 12; ++lsn) {
    ASSERT_TRUE(file->SetDurable(lsn).ok());
    const std::string other = Read(path_).substr(0, 4096);
    if (!synced.empty()) {
      EXPECT_EQ(other, synced);
    }
    synced = other;
  }
  Flip(4096 + 30);
  const auto mark = HighWaterFile::Read(path_);
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_EQ(mark->durable, 5u);
  EXPECT_TRUE(mark->half_damaged);
}

TEST_F(HighWaterTest, TheFirstRecordIsInBothSlotsBeforeRecordsGo) {
  ASSERT_TRUE(HighWaterFile::Create(path_, {}).ok());
  const auto file = Open();
  ASSERT_TRUE(file->SetDurable(20).ok());
  ASSERT_TRUE(file->SetFirst(9).ok());
  for (const size_t slot : {0, 4096}) {
    Flip(slot + 20);
    EXPECT_EQ(HighWaterFile::Read(path_)->first, 9u);
    Flip(slot + 20);
  }
}

TEST_F(HighWaterTest, TwoDamagedSlotsAreRefusedByName) {
  ASSERT_TRUE(HighWaterFile::Create(path_, {.first = 1, .durable = 8}).ok());
  Flip(3);
  EXPECT_EQ(HighWaterFile::Read(path_)->durable, 8u);
  Flip(4096 + 33);
  const auto mark = HighWaterFile::Read(path_);
  EXPECT_TRUE(absl::IsDataLoss(mark.status()));
  EXPECT_THAT(mark.status().message(), HasSubstr(path_));
  EXPECT_TRUE(absl::IsDataLoss(HighWaterFile::Open(path_).status()));
  Write(path_, "");
  EXPECT_TRUE(absl::IsDataLoss(HighWaterFile::Read(path_).status()));
  std::filesystem::remove(path_);
  EXPECT_TRUE(absl::IsDataLoss(HighWaterFile::Read(path_).status()));
}

}  // namespace
}  // namespace dslide::shard

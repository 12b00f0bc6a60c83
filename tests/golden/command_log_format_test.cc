// Command logs as earlier programs have left them: frames, the high-water mark, images.

#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "core/base/crc32c.h"
#include "core/wire/log/logged_command.h"
#include "services/shard/durability/log_directory.h"
#include "services/shard/log/log_scan.h"
#include "tests/golden/format_files.h"

namespace dslide::golden {
namespace {

using shard::DurableState;
using shard::LogDirectory;
using shard::LogRecord;
using shard::ShardCore;

constexpr char kCommandLogFormatKept[] = "command-log-v1";

class CommandLogFormatTest : public FormatTest {
 protected:
  absl::Status Restore(const std::string& data_dir, std::unique_ptr<ShardCore>* core) {
    auto restored = LogDirectory::Restore(data_dir, {}, FreshCore, core);
    if (!restored.ok()) return restored.status();
    state_ = *std::move(restored);
    return absl::OkStatus();
  }
  // A shard does not start, and leaves everything as it is.
  void ExpectRefused(const std::string& data_dir, const std::string& where, int64_t version,
                     const std::string& reads = "format 1") {
    const auto before = Contents(data_dir);
    std::unique_ptr<ShardCore> core;
    ExpectOtherVersion(Restore(data_dir, &core), where, version, reads);
    EXPECT_EQ(Contents(data_dir), before);
  }
  // The frames and payloads of a log, in order.
  static std::vector<std::string> Records(const std::string& data_dir) {
    std::vector<std::string> records;
    const auto storage = shard::LogStorage::OpenToRead(
        shard::RecordsPath(LogDirectory::PathIn(data_dir)), shard::LogTail::kMustBeWhole, {});
    EXPECT_TRUE(storage.ok()) << storage.status();
    EXPECT_TRUE((*storage)
                    ->ForEach(0,
                              [&](uint64_t, absl::string_view record) {
                                records.emplace_back(record);
                                return absl::OkStatus();
                              })
                    .ok());
    return records;
  }

  std::unique_ptr<DurableState> state_;
};

TEST_F(CommandLogFormatTest, AShardThatStartsOnItIsTheOneThatWroteIt) {
  const std::string data_dir = CopyOf(kCommandLogFormatKept);
  std::unique_ptr<ShardCore> core;
  const absl::Status restored = Restore(data_dir, &core);
  ASSERT_TRUE(restored.ok()) << restored;
  ExpectHolds(*core, kCommandLogFormatKept);
  EXPECT_EQ(state_->recovery().image_lsn, 32u);
  EXPECT_EQ(state_->recovery().last_lsn, 46u);
  EXPECT_EQ(state_->recovery().replayed, 14);
  EXPECT_EQ(state_->recovery().damaged_images, 0);
  // It goes on.
  ASSERT_TRUE(state_->Begin({}, GoldenLimits(), *core).ok());
  EXPECT_TRUE(state_->TakeImage(*core).ok());
}

TEST_F(CommandLogFormatTest, TheOlderImageAndAllOfTheLogGiveTheSame) {
  const std::string data_dir = CopyOf(kCommandLogFormatKept);
  const auto images = LogDirectory::Images(data_dir);
  ASSERT_TRUE(images.ok()) << images.status();
  ASSERT_EQ(*images, (std::vector<shard::LogImage>{{.lsn = 32}, {}}));
  std::filesystem::remove(LogDirectory::ImagePathIn(data_dir, images->front()) + "/state");
  std::unique_ptr<ShardCore> core;
  const absl::Status restored = Restore(data_dir, &core);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(state_->recovery().replayed, 46);
  ExpectHolds(*core, kCommandLogFormatKept);
}

TEST_F(CommandLogFormatTest, ItHasEveryKindOfRecordAndItsMarks) {
  const std::string log = LogDirectory::PathIn(CopyOf(kCommandLogFormatKept));
  std::set<std::string> kinds;
  const auto scan = shard::ScanLog(log, {}, [&](const LogRecord& record) {
    kinds.insert(wire::LoggedKindName(static_cast<wire::LoggedKind>(record.kind)));
    return absl::OkStatus();
  });
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(kinds,
            (std::set<std::string>{"step", "scatter", "create-model", "drop-model", "hello",
                                   "close-client", "refused", "ownership", "limits", "settle"}))
      << "a new kind needs a new kept log";
  EXPECT_EQ(scan->extent.first, 1u);
  EXPECT_EQ(scan->extent.last, 46u);
  EXPECT_EQ(scan->high_water.first, 1u);
  EXPECT_EQ(scan->high_water.durable, 46u);
  EXPECT_FALSE(scan->high_water.half_damaged);
  EXPECT_FALSE(scan->torn);
}

// Fails when the layout changes and its version does not.
TEST_F(CommandLogFormatTest, TodaysProgramsWriteTheSame) {
  const std::string data_dir = CopyOf(kCommandLogFormatKept);
  for (const std::string& bytes : Records(data_dir)) {
    const auto record = shard::DecodeLogRecord(bytes);
    ASSERT_TRUE(record.ok()) << record.status();
    uint32_t checksum = 0;
    const std::string frame = shard::EncodeLogFrame(record->lsn, record->previous, record->kind,
                                                    {record->payload}, &checksum);
    EXPECT_EQ(absl::StrCat(frame, record->payload), bytes) << record->lsn;
  }
  const std::string log = LogDirectory::PathIn(data_dir);
  const std::string mark = Read(shard::HighWaterPath(log));
  ASSERT_TRUE(shard::HighWaterFile::Create(Path("mark"), {.first = 1, .durable = 47}).ok());
  const std::string fresh = Read(Path("mark"));
  ASSERT_EQ(fresh.size(), mark.size());
  for (const size_t slot : {0, 4096}) {
    EXPECT_EQ(fresh.substr(slot, 8), mark.substr(slot, 8)) << "magic";
    EXPECT_EQ(fresh.substr(slot + 16, 8), mark.substr(slot + 16, 8)) << "first";
  }
}

TEST_F(CommandLogFormatTest, RecordsOfOtherVersionsAreRefused) {
  for (const char version : {0, 2}) {
    const std::string data_dir = CopyOf(kCommandLogFormatKept);
    const std::string log = LogDirectory::PathIn(data_dir);
    std::string record = Records(data_dir).back();
    const auto last = shard::DecodeLogRecord(record);
    uint64_t lsn = last->lsn + 1;
    const uint32_t previous = last->checksum;
    std::memcpy(record.data() + 8, &lsn, sizeof(lsn));
    std::memcpy(record.data() + 16, &previous, sizeof(previous));
    record[21] = version;
    const uint32_t crc =
        ExtendCrc32c(ExtendCrc32c(0, record.substr(0, 24)), record.substr(shard::kLogFrameBytes));
    std::memcpy(record.data() + 24, &crc, sizeof(crc));
    {
      const auto storage =
          shard::LogStorage::Open(shard::RecordsPath(log), shard::LogTail::kMustBeWhole, {});
      ASSERT_TRUE(storage.ok()) << storage.status();
      const absl::string_view payload = absl::string_view(record).substr(shard::kLogFrameBytes);
      ASSERT_TRUE((*storage)->Put(lsn, record.substr(0, shard::kLogFrameBytes), {payload}).ok());
      ASSERT_TRUE((*storage)->Sync().ok());
    }
    ExpectOtherVersion(shard::ScanLog(log, {}).status(), "record 47: a log record", version,
                       "format 1");
    ExpectRefused(data_dir, "record 47: a log record", version, "format 1");
  }
}

TEST_F(CommandLogFormatTest, KindsOfLaterVersionsAreRefused) {
  const std::string data_dir = CopyOf(kCommandLogFormatKept);
  std::unique_ptr<ShardCore> core;
  ASSERT_TRUE(Restore(data_dir, &core).ok());
  state_->log().Start({});
  ASSERT_TRUE(state_->log().Append(11, {}).ok());
  ASSERT_TRUE(state_->log().Sync().ok());
  state_ = nullptr;
  const absl::Status refused = Restore(data_dir, &core);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("record 47: it is of kind 11"), HasSubstr("reads kinds 1 to 10"),
                    HasSubstr("use the version that wrote it or a later one")));
}

TEST_F(CommandLogFormatTest, HighWaterMarksOfOtherVersionsAreRefused) {
  for (const int64_t version : {0, 2}) {
    const std::string data_dir = CopyOf(kCommandLogFormatKept);
    const std::string path = shard::HighWaterPath(LogDirectory::PathIn(data_dir));
    std::string content = Read(path);
    for (const size_t slot : {0, 4096}) {
      content[slot + 7] = static_cast<char>('0' + version);
      const uint32_t crc = ExtendCrc32c(0, content.substr(slot, 32));
      std::memcpy(content.data() + slot + 32, &crc, sizeof(crc));
    }
    Write(path, content);
    ExpectRefused(data_dir, absl::StrCat("the high-water mark ", path), version);
    ExpectOtherVersion(shard::HighWaterFile::Open(path).status(), path, version, "format 1");
    // In one slot it is damage, and the other one counts.
    content[7] = '1';
    const uint32_t crc = ExtendCrc32c(0, content.substr(0, 32));
    std::memcpy(content.data() + 32, &crc, sizeof(crc));
    Write(path, content);
    const auto half = shard::HighWaterFile::Read(path);
    ASSERT_TRUE(half.ok()) << half.status();
    EXPECT_TRUE(half->half_damaged);
  }
}

// The other image would do; but it would be the only one from then on.
TEST_F(CommandLogFormatTest, AnImageOfALaterVersionIsNotTakenForADamagedOne) {
  const std::string data_dir = CopyOf(kCommandLogFormatKept);
  const std::string state = LogDirectory::ImagePathIn(data_dir, {.lsn = 32}) + "/state";
  PatchBytes(state, "DSLIMAGE1", "DSLIMAGE2");
  const auto before = Contents(data_dir);
  std::unique_ptr<ShardCore> core;
  ExpectOtherVersion(Restore(data_dir, &core), state, 2, "format 1");
  EXPECT_EQ(Contents(data_dir), before);
}

}  // namespace
}  // namespace dslide::golden

#include "services/shard/log/command_log.h"

#include <gmock/gmock.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/log/logged_command.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/shard/log/log_samples.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

// A file system on which writes and syncs of RocksDB's write-ahead log can be made to fail.
class FailingFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FailingFileSystem() : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  const char* Name() const override { return "FailingFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    if (full && name.find(".log") == std::string::npos) return Full();
    std::unique_ptr<rocksdb::FSWritableFile> real;
    const rocksdb::IOStatus made = target()->NewWritableFile(name, options, &real, context);
    if (!made.ok()) return made;
    *file = std::make_unique<File>(std::move(real), *this);
    return made;
  }
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options,
                                 uint64_t* free, rocksdb::IODebugContext* context) override {
    if (full) {
      *free = 0;
      return rocksdb::IOStatus::OK();
    }
    return target()->GetFreeSpace(path, options, free, context);
  }

  std::atomic<bool> full = false;
  std::atomic<bool> writes_fail = false;

 private:
  static rocksdb::IOStatus Full() { return rocksdb::IOStatus::NoSpace("planted"); }

  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile> real, FailingFileSystem& owner)
        : rocksdb::FSWritableFileOwnerWrapper(std::move(real)), owner_(owner) {}

    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override {
      if (owner_.writes_fail) return rocksdb::IOStatus::IOError("planted");
      if (owner_.full) {
        // A disk that fills up takes the beginning.
        const rocksdb::Slice part(data.data(), data.size() / 2);
        target()->Append(part, options, context).PermitUncheckedError();
        return Full();
      }
      return target()->Append(data, options, context);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo&,
                             rocksdb::IODebugContext* context) override {
      return Append(data, options, context);
    }

   private:
    FailingFileSystem& owner_;
  };
};

class CommandLogTest : public LogDirectoryTest {
 protected:
  std::unique_ptr<CommandLog> Open(CommandLogOptions options = {}) {
    const std::string path = Path("log");
    if (!std::filesystem::exists(path)) {
      std::filesystem::create_directories(path);
      EXPECT_TRUE(CommandLog::Create(path, options).ok());
    }
    auto log = CommandLog::Open(path, options);
    EXPECT_TRUE(log.ok()) << log.status();
    return log.ok() ? *std::move(log) : nullptr;
  }
  // Records of 5,000 bytes: a dozen fill a small table file.
  static void AppendAll(CommandLog& log, int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(Append(log, std::string(5000, 'x')).ok());
  }
  CommandLogOptions Failing() {
    CommandLogOptions options;
    options.storage.env = env_.get();
    options.storage.sync_file = [this](int fd) {
      if (!syncs_fail_) return fdatasync(fd);
      errno = EIO;
      return -1;
    };
    return options;
  }

  std::atomic<bool> syncs_fail_ = false;
  std::shared_ptr<FailingFileSystem> disk_ = std::make_shared<FailingFileSystem>();  // env_'s, too
  std::unique_ptr<rocksdb::Env> env_ = rocksdb::NewCompositeEnv(disk_);
};

TEST_F(CommandLogTest, GoesOnWhereItEnded) {
  for (uint64_t round = 0; round < 4; ++round) {
    const auto log = Open();
    ASSERT_NE(log, nullptr);
    EXPECT_EQ(log->found().extent.last, 3 * round);
    EXPECT_EQ(log->appended(), 3 * round);
    log->Start({});
    for (uint64_t i = 1; i <= 3; ++i) {
      EXPECT_EQ(*Append(*log, absl::StrCat("record ", i)), 3 * round + i);
    }
  }
  EXPECT_EQ(Payloads("log")->size(), 12u);
}

TEST_F(CommandLogTest, SaysHowFarItIsDurableInOrder) {
  uint64_t last = 0;  // of the log's thread
  std::atomic<int> calls = 0;
  auto log = Open();
  log->Start({.on_durable = [&](uint64_t durable) {
    EXPECT_GT(durable, last);
    last = durable;
    ++calls;
  }});
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(Append(*log, "x").ok());
  ASSERT_TRUE(log->Sync().ok());
  EXPECT_EQ(log->durable(), 500u);
  // The mark is written before anybody is told.
  EXPECT_EQ(HighWaterFile::Read(HighWaterPath(Path("log")))->durable, 500u);
  log = nullptr;
  EXPECT_EQ(last, 500u);
  EXPECT_LT(calls, 500) << "records that wait are synced together";
}

TEST_F(CommandLogTest, WithAnIntervalSyncsAreRare) {
  CommandLogOptions options;
  options.sync_interval = absl::Minutes(10);
  std::atomic<int> syncs = 0;
  auto log = Open(options);
  log->Start({.on_sync = [&](absl::Duration) { ++syncs; }});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Append(*log, "x").ok());
  EXPECT_EQ(syncs, 0);
  ASSERT_TRUE(log->Sync().ok()) << "whoever needs it now gets it now";
  EXPECT_EQ(syncs, 1);
  ASSERT_TRUE(Append(*log, "last").ok());
  log = nullptr;
  EXPECT_EQ(syncs, 2) << "a clean end leaves nothing behind";
}

TEST_F(CommandLogTest, TrimDropsOldFilesAndKeepsTheEnd) {
  CommandLogOptions options;
  options.storage.table_bytes = 64 << 10;
  auto log = Open(options);
  log->Start({});
  AppendAll(*log, 200);
  ASSERT_TRUE(log->Sync().ok()) << "only what is durable is trimmed";
  ASSERT_TRUE(log->Trim(150).ok());
  log = nullptr;
  log = Open(options);
  ASSERT_NE(log, nullptr);
  const LogExtent extent = log->found().extent;
  EXPECT_GT(extent.first, 100u);
  EXPECT_LE(extent.first, 150u);
  EXPECT_EQ(extent.last, 200u);
  EXPECT_EQ(log->found().high_water.first, 150u);
  log->Start({});
  ASSERT_TRUE(log->Sync().ok());
  ASSERT_TRUE(log->Trim(100'000).ok());
  log = nullptr;
  log = Open(options);
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->found().extent.last, 200u) << "the last record stays: the chain goes on from it";
  log->Start({});
  EXPECT_EQ(*Append(*log, "next"), 201u);
}

TEST_F(CommandLogTest, AMissingBeginningIsRefused) {
  CommandLogOptions options;
  options.storage.table_bytes = 64 << 10;
  auto log = Open(options);
  log->Start({});
  AppendAll(*log, 200);
  ASSERT_TRUE(log->Sync().ok()) << "only what is durable is trimmed";
  ASSERT_TRUE(log->Trim(150).ok());
  log = nullptr;
  ASSERT_TRUE(
      HighWaterFile::Create(HighWaterPath(Path("log")), {.first = 50, .durable = 200}).ok());
  EXPECT_THAT(CommandLog::Open(Path("log"), options).status().message(),
              HasSubstr("records 50 to 1"));
}

TEST_F(CommandLogTest, AFileThatIsGoneBeforeItIsSyncedIsFollowed) {
  // The first sync waits until the file that RocksDB had named to it lies in a table file.
  absl::Notification syncing;
  absl::Notification gone;
  CommandLogOptions options;
  options.storage.table_bytes = 64 << 10;
  options.storage.sync_file = [&](int fd) {
    if (!syncing.HasBeenNotified()) syncing.Notify();
    gone.WaitForNotification();
    return fdatasync(fd);
  };
  auto log = Open(options);
  log->Start({});
  AppendAll(*log, 1);
  syncing.WaitForNotification();
  const std::string first = WalOf("log");
  uint64_t appended = 1;
  for (; appended < 10'000 && std::filesystem::exists(first); ++appended) AppendAll(*log, 1);
  EXPECT_FALSE(std::filesystem::exists(first));
  gone.Notify();
  EXPECT_TRUE(log->Sync().ok());
  AppendAll(*log, 20);
  EXPECT_TRUE(log->Sync().ok());
  log = nullptr;
  EXPECT_EQ(Payloads("log")->size(), appended + 20);
}

TEST_F(CommandLogTest, AFailedSyncIsNeverTakenBack) {
  auto log = Open(Failing());
  std::atomic<uint64_t> durable = 0;
  absl::Status failure;  // the log's thread's; read when it has ended
  log->Start({.on_durable = [&](uint64_t lsn) { durable = lsn; },
              .on_failed = [&](const absl::Status& why) { failure = why; }});
  ASSERT_TRUE(Append(*log, "good").ok());
  ASSERT_TRUE(log->Sync().ok());
  syncs_fail_ = true;
  ASSERT_TRUE(Append(*log, "lost").ok());
  EXPECT_EQ(ReasonOf(log->Sync()), reason::kLogFailed);
  // The disk is well again, but nobody knows what became of the record.
  syncs_fail_ = false;
  EXPECT_EQ(ReasonOf(log->Sync()), reason::kLogFailed);
  EXPECT_EQ(ReasonOf(Append(*log, "more").status()), reason::kLogFailed);
  EXPECT_EQ(durable, 1u);
  log = nullptr;
  EXPECT_EQ(ReasonOf(failure), reason::kLogFailed);
  EXPECT_EQ(durable, 1u);
  EXPECT_TRUE(Payloads("log").ok());
}

// The system may drop what it could not write and then call the next sync a success.
TEST_F(CommandLogTest, ASyncThatFailedOnceIsNotTriedAgain) {
  std::atomic<int> failures_left = 0;
  CommandLogOptions options;
  options.storage.sync_file = [&](int fd) {
    if (failures_left-- <= 0) return fdatasync(fd);
    errno = EIO;
    return -1;
  };
  auto log = Open(options);
  std::atomic<uint64_t> durable = 0;
  log->Start({.on_durable = [&](uint64_t lsn) { durable = lsn; }});
  ASSERT_TRUE(Append(*log, "good").ok());
  ASSERT_TRUE(log->Sync().ok());
  failures_left = 1;
  ASSERT_TRUE(Append(*log, "lost").ok());
  EXPECT_EQ(ReasonOf(log->Sync()), reason::kLogFailed);
  log = nullptr;
  EXPECT_EQ(durable, 1u);
}

TEST_F(CommandLogTest, AFailedWriteEndsTheLog) {
  auto log = Open(Failing());
  log->Start({});
  ASSERT_TRUE(Append(*log, "good").ok());
  ASSERT_TRUE(log->Sync().ok());
  disk_->writes_fail = true;
  EXPECT_EQ(ReasonOf(Append(*log, "bad").status()), reason::kLogFailed);
  disk_->writes_fail = false;
  EXPECT_EQ(ReasonOf(Append(*log, "bad").status()), reason::kLogFailed);
  log = nullptr;
  log = Open();
  ASSERT_NE(log, nullptr);
  EXPECT_EQ(log->found().extent.last, 1u);
}

TEST_F(CommandLogTest, AFullDiskRefusesRecordsUntilThereIsSpaceAgain) {
  auto log = Open(Failing());
  log->Start({});
  ASSERT_TRUE(Append(*log, "good").ok());
  disk_->full = true;
  const absl::Status refused = Append(*log, "refused").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), reason::kDiskFull);
  EXPECT_EQ(ReasonOf(Append(*log, "refused").status()), reason::kDiskFull);
  EXPECT_TRUE(log->Sync().ok()) << "what was appended before is as good as ever";
  // An image that was under way may be whole only now; nothing is open that could be trimmed.
  EXPECT_TRUE(absl::IsUnavailable(log->Trim(1)));
  disk_->full = false;
  // RocksDB looks for space by itself every few seconds.
  absl::StatusOr<uint64_t> again = absl::UnknownError("not tried");
  ASSERT_TRUE(Eventually([&] { return (again = Append(*log, "again")).ok(); })) << again.status();
  EXPECT_EQ(*again, 2u);
  ASSERT_TRUE(log->Sync().ok());
  log = nullptr;
  EXPECT_EQ(*Payloads("log"), (std::vector<std::string>{"good", "again"}));
}

TEST_F(CommandLogTest, WhatTheReserveLeavesBehindIsForNobodyWhoWaits) {
  std::atomic<int64_t> available = int64_t{1} << 30;
  const std::string volume = Path("volume");
  std::filesystem::create_directories(volume);
  const auto reserve =
      DiskReserve::Open(volume, {.bytes = 1 << 20,
                                 .available = [&](const std::string&) { return available.load(); },
                                 .interval = absl::Milliseconds(5)});
  CommandLogOptions options = Failing();
  options.reserve = reserve.get();
  auto log = Open(options);
  log->Start({});
  ASSERT_TRUE(Append(*log, "good").ok());
  // What is free when the reserve is: too little to make it again.
  available = 2 << 20;
  disk_->full = true;
  EXPECT_EQ(ReasonOf(Append(*log, "refused").status()), reason::kDiskFull);
  EXPECT_FALSE(reserve->held()) << "a write has found no space";
  // There is space now, the reserve's: it would do for a record, and is not for one.
  disk_->full = false;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ReasonOf(Append(*log, "refused").status()), reason::kDiskFull);
    absl::SleepFor(absl::Milliseconds(10));
  }
  // What the shard notes for itself may have it.
  const auto settle = static_cast<uint8_t>(wire::LoggedKind::kSettle);
  EXPECT_EQ(*log->Append(settle, {}), 2u);
  available = int64_t{1} << 30;
  absl::StatusOr<uint64_t> again = absl::UnknownError("not tried");
  ASSERT_TRUE(Eventually([&] { return (again = Append(*log, "again")).ok(); })) << again.status();
  EXPECT_EQ(*again, 3u);
  EXPECT_TRUE(reserve->held());
}

}  // namespace
}  // namespace dslide::shard

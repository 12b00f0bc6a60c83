// What is found of a log that was damaged in every way that a test can think of.

#include "services/shard/log/log_scan.h"

#include <gmock/gmock.h>

#include <set>

#include "core/base/counter_rng.h"
#include "tests/unit/services/shard/log/log_samples.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string>& Six() {
  static const auto* const payloads =
      new std::vector<std::string>{"first", "second", std::string(300, 'x'), "fourth", "", "sixth"};
  return *payloads;
}

class LogScanTest : public LogDirectoryTest {
 protected:
  // Lowers the mark, as a loss of power may leave it.
  void SetMark(const std::string& name, uint64_t durable) {
    ASSERT_TRUE(HighWaterFile::Create(HighWaterPath(Path(name)), {.durable = durable}).ok());
  }
};

TEST_F(LogScanTest, FindsEveryRecord) {
  MakeLog("log", Six());
  bool torn = true;
  const auto payloads = Payloads("log", &torn);
  ASSERT_TRUE(payloads.ok()) << payloads.status();
  EXPECT_EQ(*payloads, Six());
  EXPECT_FALSE(torn);
  const auto scan = ScanLog(Path("log"), {});
  EXPECT_EQ(scan->extent.first, 1u);
  EXPECT_EQ(scan->extent.last, 6u);
  EXPECT_EQ(scan->high_water.durable, 6u);
}

TEST_F(LogScanTest, ATornLastRecordIsCutOffWhereverItIsTorn) {
  MakeLog("log", Six());
  const std::string wal = Read(WalOf("log"));
  SetMark("log", 5);
  // RocksDB's header, the batch and the record's frame come before the last payload.
  const size_t begin = wal.find("fourth");
  ASSERT_NE(begin, std::string::npos);
  std::set<size_t> lengths;
  bool whole_seen = false;
  for (size_t size = wal.size(); size-- > begin;) {
    Copy("log", "torn");
    fs::resize_file(WalOf("torn"), size);
    bool torn = false;
    const auto payloads = Payloads("torn", &torn);
    if (!payloads.ok()) {
      // Cut deeper than the last record: what was durable is missing.
      EXPECT_THAT(payloads.status().message(), HasSubstr("record 5 had been made durable"));
      break;
    }
    lengths.insert(payloads->size());
    ASSERT_EQ(*payloads, std::vector<std::string>(Six().begin(), Six().begin() + 5)) << size;
    whole_seen |= !torn;  // cut exactly between two records
    if (size % 8 != 0) continue;
    auto log = CommandLog::Open(Path("torn"), {});
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Start({});
    EXPECT_EQ(*Append(**log, "again"), 6u);
    *log = nullptr;
    const auto continued = Payloads("torn");
    ASSERT_TRUE(continued.ok()) << continued.status();
    EXPECT_EQ(continued->size(), 6u);
    EXPECT_EQ(continued->back(), "again");
  }
  EXPECT_THAT(lengths, ElementsAre(5));
  EXPECT_TRUE(whole_seen);
}

TEST_F(LogScanTest, AnEndBelowTheHighWaterMarkIsRefused) {
  MakeLog("log", Six());
  const std::string wal = WalOf("log");
  fs::resize_file(wal, fs::file_size(wal) - 1);
  const auto torn = ScanLog(Path("log"), {});
  EXPECT_TRUE(absl::IsDataLoss(torn.status()));
  EXPECT_THAT(torn.status().message(),
              HasSubstr("the log ends at record 5, but record 6 had been made durable"));
  EXPECT_TRUE(absl::IsDataLoss(CommandLog::Open(Path("log"), {}).status()));
  fs::resize_file(wal, 0);
  EXPECT_THAT(ScanLog(Path("log"), {}).status().message(),
              HasSubstr("the log ends at record 0, but records 1 to 6 had been made durable"));
}

TEST_F(LogScanTest, DamageInFrontOfAWholeRecordIsNoTornEnd) {
  MakeLog("log", Six());
  SetMark("log", 1);
  std::string wal = Read(WalOf("log"));
  wal[wal.find("fourth")] ^= 1;
  Write(WalOf("log"), wal);
  const auto scan = ScanLog(Path("log"), {});
  EXPECT_TRUE(absl::IsDataLoss(scan.status()));
  EXPECT_THAT(scan.status().message(), HasSubstr("records 4 to 6 would be lost"));
}

// Each byte of each file, with all bits of it inverted and with one: the log is refused, or it is
// the log that was written.
TEST_F(LogScanTest, NoFlippedByteGivesAnotherLog) {
  MakeLog("log", Six());
  int refused = 0;
  int harmless = 0;
  for (const auto& entry : fs::recursive_directory_iterator(Path("log"))) {
    const std::string relative = fs::relative(entry.path(), Path("log")).string();
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    // Text that says how the database was made; nothing reads it. A few bytes will do.
    const bool unread = relative.find("OPTIONS") != std::string::npos ||
                        relative.find("LOG") != std::string::npos ||
                        relative.find("IDENTITY") != std::string::npos;
    const std::string good = Read(entry.path().string());
    // Of the mark, the two slots.
    const bool mark = relative == "high-water";
    for (size_t at = 0; at < good.size(); at += unread ? 997 : 1) {
      if (mark && at % 4096 > 40) continue;
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (at % 2 == 0 ? 0xff : 1 << (at % 8)));
      Write(entry.path().string(), bad);
      const auto payloads = Payloads("log");
      if (payloads.ok()) {
        ++harmless;
        ASSERT_EQ(*payloads, Six()) << relative << ", byte " << at;
      } else {
        ++refused;
        ASSERT_TRUE(absl::IsDataLoss(payloads.status()))
            << relative << ", byte " << at << ": " << payloads.status();
      }
    }
    Write(entry.path().string(), good);
  }
  EXPECT_EQ(*Payloads("log"), Six());
  EXPECT_GT(refused, 600);
  EXPECT_GT(harmless, 0);
}

TEST_F(LogScanTest, CutsOfEveryFileAreRefusedOrHarmless) {
  MakeLog("log", Six());
  for (const auto& entry : fs::recursive_directory_iterator(Path("log"))) {
    if (!entry.is_regular_file() || entry.file_size() == 0) continue;
    const std::string path = entry.path().string();
    const std::string good = Read(path);
    for (const size_t eighths : {0, 1, 3, 4, 6, 7}) {
      Write(path, good.substr(0, good.size() * eighths / 8));
      const auto payloads = Payloads("log");
      if (payloads.ok()) {
        EXPECT_EQ(*payloads, Six()) << path;
      } else {
        EXPECT_TRUE(absl::IsDataLoss(payloads.status())) << path << payloads.status();
      }
    }
    fs::remove(path);
    const auto without = Payloads("log");
    if (without.ok()) {
      EXPECT_EQ(*without, Six()) << path;
    }
    Write(path, good);
  }
}

TEST_F(LogScanTest, RecordsOutOfPlaceAreRefused) {
  for (const bool swapped : {true, false}) {
    const std::string name = swapped ? "swapped" : "foreign";
    fs::create_directories(Path(name));
    ASSERT_TRUE(CommandLog::Create(Path(name), {}).ok());
    auto storage = LogStorage::Open(RecordsPath(Path(name)), LogTail::kMustBeWhole, {});
    ASSERT_TRUE(storage.ok()) << storage.status();
    uint32_t checksum = 0;
    for (uint64_t lsn = 1; lsn <= 4; ++lsn) {
      const absl::string_view payload = "payload";
      // A whole record of the right number, but of another log: the chain does not fit.
      if (!swapped && lsn == 3) checksum ^= 1;
      const std::string frame = EncodeLogFrame(lsn, checksum, 1, {payload}, &checksum);
      const uint64_t place = swapped && (lsn == 2 || lsn == 3) ? 5 - lsn : lsn;
      ASSERT_TRUE((*storage)->Put(place, frame, {payload}).ok());
    }
    *storage = nullptr;
    const auto scan = ScanLog(Path(name), {});
    EXPECT_TRUE(absl::IsDataLoss(scan.status()));
    EXPECT_THAT(scan.status().message(),
                HasSubstr(swapped ? "in the place of record 2 lies record 3"
                                  : "record 3 does not follow the one before it"));
  }
}

TEST_F(LogScanTest, BothSlotsOfTheMarkDamagedIsRefused) {
  MakeLog("log", Six());
  std::string mark = Read(HighWaterPath(Path("log")));
  mark[10] ^= 1;
  mark[4096 + 10] ^= 1;
  Write(HighWaterPath(Path("log")), mark);
  EXPECT_THAT(ScanLog(Path("log"), {}).status().message(), HasSubstr("high-water"));
}

TEST_F(LogScanTest, LargeRecordsOverManyBlocksAreFoundBehindDamage) {
  // Each fills blocks of RocksDB's log, so that their frames are cut by its headers.
  std::vector<std::string> payloads;
  CounterRng rng(4);
  for (int i = 0; i < 5; ++i) {
    std::string payload(50'000 + 10'007 * i, '\0');
    for (char& byte : payload) byte = static_cast<char>(rng.NextBits());
    payloads.push_back(std::move(payload));
  }
  MakeLog("log", payloads);
  EXPECT_EQ(*Payloads("log"), payloads);
  SetMark("log", 1);
  std::string wal = Read(WalOf("log"));
  wal[100'000] ^= 1;  // in the second record
  Write(WalOf("log"), wal);
  EXPECT_THAT(ScanLog(Path("log"), {}).status().message(),
              HasSubstr("records 2 to 5 would be lost"));
}

}  // namespace
}  // namespace dslide::shard

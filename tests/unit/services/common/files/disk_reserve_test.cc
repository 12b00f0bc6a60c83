#include "services/common/files/disk_reserve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "absl/time/clock.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kBytes = 8 * kMiB;

class DiskReserveTest : public ::testing::Test {
 protected:
  DiskReserveTest() { fs::create_directories(directory_); }
  ~DiskReserveTest() override { fs::remove_all(directory_); }

  std::unique_ptr<DiskReserve> Open(int64_t bytes = kBytes) {
    return DiskReserve::Open(directory_.string(),
                             {.bytes = bytes,
                              .available = [this](const std::string&) { return available_.load(); },
                              .interval = absl::Milliseconds(5)});
  }
  // Bytes that the file really takes on the disk.
  int64_t Taken() const {
    struct stat found {};
    return ::stat((directory_ / "RESERVE").c_str(), &found) == 0 ? found.st_blocks * 512 : 0;
  }
  template <typename Condition>
  static void Await(const Condition& condition) {
    EXPECT_TRUE(Eventually(condition));
  }

  const fs::path directory_ =
      fs::path(::testing::TempDir()) / ("disk_reserve_test_" + std::to_string(getpid()));
  std::atomic<int64_t> available_ = 100 * kBytes;
};

TEST_F(DiskReserveTest, ItIsReallyThere) {
  const auto reserve = Open();
  EXPECT_TRUE(reserve->held());
  EXPECT_EQ(reserve->bytes(), kBytes);
  EXPECT_GE(Taken(), kBytes);
}

TEST_F(DiskReserveTest, ItGoesWhenTheDiskIsFullAndComesBackWithSpace) {
  const auto reserve = Open();
  available_ = kMiB - 1;
  Await([&] { return !reserve->held(); });
  EXPECT_EQ(Taken(), 0);
  EXPECT_EQ(reserve->bytes(), 0);
  // What it has left behind is no space to count on.
  available_ = kBytes;
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(reserve->held());
  available_ = kBytes + 4 * kMiB;
  Await([&] { return reserve->held(); });
  EXPECT_GE(Taken(), kBytes);
}

TEST_F(DiskReserveTest, AFailedWriteReleasesItAtOnce) {
  const auto reserve = Open();
  available_ = 2 * kMiB;  // too little for somebody's write
  reserve->Release();
  EXPECT_FALSE(reserve->held());
  EXPECT_EQ(Taken(), 0);
  reserve->Release();  // again is fine
}

TEST_F(DiskReserveTest, ItIsNeverMoreThanATenthOfWhatIsFree) {
  available_ = 10 * kBytes - 1;
  const auto reserve = Open();
  EXPECT_EQ(reserve->bytes(), 0);
  EXPECT_TRUE(reserve->held()) << "nobody waits for what will not be";
  available_ = 0;
  reserve->Release();
  EXPECT_TRUE(reserve->held());
}

TEST_F(DiskReserveTest, TheNextProcessTakesItOver) {
  Open().reset();
  EXPECT_GE(Taken(), kBytes);
  available_ = 3 * kBytes;  // not enough to make one anew
  EXPECT_EQ(Open()->bytes(), kBytes);
  // A start on a full disk has the space before it does anything else.
  available_ = 0;
  EXPECT_EQ(Open()->bytes(), 0);
}

TEST_F(DiskReserveTest, AnotherSizeAndNoneAreMadeSo) {
  Open().reset();
  EXPECT_EQ(Open(kBytes / 2)->bytes(), kBytes / 2);
  EXPECT_LT(Taken(), kBytes);
  EXPECT_TRUE(Open(0)->held());
  EXPECT_EQ(Taken(), 0);
}

TEST_F(DiskReserveTest, ThePageShowsIt) {
  Metrics metrics;
  const auto reserve = Open();
  reserve->AddMetrics(metrics);
  EXPECT_THAT(metrics.Expose(), HasSubstr("dslide_server_disk_reserve_bytes 8388608\n"));
}

}  // namespace
}  // namespace dslide

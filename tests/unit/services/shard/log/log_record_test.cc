#include "services/shard/log/log_record.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dslide::shard {
namespace {

std::string Encoded(uint64_t lsn, uint32_t previous, uint8_t kind,
                    const std::vector<absl::string_view>& payload) {
  uint32_t checksum = 0;
  std::string bytes = EncodeLogFrame(lsn, previous, kind, payload, &checksum);
  EXPECT_EQ(bytes.size(), static_cast<size_t>(kLogFrameBytes));
  for (const absl::string_view piece : payload) bytes.append(piece.data(), piece.size());
  return bytes;
}

TEST(LogRecordTest, ReadsBackWhatWasWrittenInPieces) {
  const std::string bytes = Encoded(77, 0xdeadbeef, 3, {"one", "", "two"}) + "behind";
  const auto record = DecodeLogRecord(bytes);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->lsn, 77u);
  EXPECT_EQ(record->previous, 0xdeadbeefu);
  EXPECT_EQ(record->kind, 3);
  EXPECT_EQ(record->payload, "onetwo");
  EXPECT_EQ(DecodeLogRecord(Encoded(1, 0, 1, {}))->payload, "");
}

TEST(LogRecordTest, TheLayoutIsFixed) {
  const std::string bytes = Encoded(0x0102030405060708, 0x11121314, 0x21, {"ab"});
  EXPECT_EQ(bytes.substr(0, 24),
            std::string("DSLR\x02\x00\x00\x00\x08\x07\x06\x05\x04\x03\x02\x01\x14\x13\x12\x11\x21"
                        "\x01\x00\x00",
                        24));
  EXPECT_EQ(bytes.substr(28), "ab");
}

TEST(LogRecordTest, EveryFlippedBitAndEveryCutIsFound) {
  const std::string good = Encoded(5, 6, 7, {"some payload"});
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(absl::IsDataLoss(DecodeLogRecord(bad).status())) << "bit " << bit;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeLogRecord(good.substr(0, size)).status())) << size;
  }
}

TEST(LogRecordTest, FramesAreFoundInTheMiddleOfOtherBytes) {
  const std::string bytes = "DSL" + Encoded(1, 0, 1, {"x"}) + "DSLR";
  EXPECT_EQ(FindLogFrame(bytes, 0), 3u);
  EXPECT_EQ(FindLogFrame(bytes, 4), bytes.size() - 4);
  EXPECT_EQ(FindLogFrame(bytes, bytes.size() - 3), std::string::npos);
}

}  // namespace
}  // namespace dslide::shard

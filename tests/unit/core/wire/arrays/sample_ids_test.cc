#include "core/wire/arrays/sample_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"

namespace dslide::wire {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxIds = 1000;

absl::StatusOr<SampleIds> DecodeIds(const std::string& packed, int64_t batch,
                                    int64_t max_ids = kMaxIds) {
  const std::string none;
  return DecodeSampleIds({.message = "call",
                          .offsets_name = "offsets",
                          .ids_name = "ids",
                          .packed_name = "packed",
                          .offsets = none,
                          .ids = none,
                          .packed = packed},
                         batch, max_ids);
}

void ExpectRefusal(const std::string& packed, int64_t batch, absl::string_view reason,
                   const std::string& text, int64_t max_ids = kMaxIds) {
  const absl::Status status = DecodeIds(packed, batch, max_ids).status();
  EXPECT_EQ(ReasonOf(status), reason) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(SampleIdsTest, ComeBackWhateverTheyAre) {
  CounterRng rng(7);
  for (int round = 0; round < 200; ++round) {
    const uint64_t spread = uint64_t{1} << rng.NextBelow(25);
    SampleIds ids;
    ids.offsets.push_back(0);
    const uint64_t batch = 1 + rng.NextBelow(20);
    for (uint64_t sample = 0; sample < batch; ++sample) {
      uint64_t next = rng.NextBelow(spread);
      for (uint64_t n = rng.NextBelow(30); n > 0; --n, next += 1 + rng.NextBelow(spread)) {
        ids.rows.emplace_back(static_cast<uint32_t>(next));
      }
      ids.offsets.push_back(static_cast<uint32_t>(ids.rows.size()));
    }
    std::string packed;
    EncodePackedIds(ids.offsets, ids.rows, &packed);
    const auto got = DecodeIds(packed, static_cast<int64_t>(batch));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->offsets, ids.offsets);
    EXPECT_EQ(got->rows, ids.rows);
  }
}

// The format itself, for those who write it in other languages.
TEST(SampleIdsTest, AreCountsThenFirstIdsThenDistancesLessOne) {
  std::string packed;
  EncodePackedIds({0, 3, 3, 4}, {RowId(5), RowId(6), RowId(300), RowId(0)}, &packed);
  EXPECT_EQ(packed, std::string("\x03\x05\x00\xa5\x02\x00\x01\x00", 8));
}

TEST(SampleIdsTest, TheLastRowThatATableMayHave) {
  const std::vector<RowId> rows = {RowId(0), RowId(kMaxTableRows - 1)};
  std::string packed;
  EncodePackedIds({0, 2}, rows, &packed);
  EXPECT_EQ(DecodeIds(packed, 1)->rows, rows);
  EncodePackedIds({0, 2}, {RowId(0), RowId(kMaxTableRows)}, &packed);
  ExpectRefusal(packed, 1, reason::kBadRowId, "must be below");
}

TEST(SampleIdsTest, WhatIsCutOrGarbledIsRefused) {
  std::string packed;
  EncodePackedIds({0, 2, 3}, {RowId(5), RowId(500), RowId(70000)}, &packed);
  ASSERT_TRUE(DecodeIds(packed, 2).ok());
  for (size_t size = 1; size < packed.size(); ++size) {
    EXPECT_FALSE(DecodeIds(packed.substr(0, size), 2).ok()) << size;
  }
  ExpectRefusal(packed, 1, reason::kBadSize, "behind the ids of 1 samples");
  ExpectRefusal(packed, 3, reason::kBadSize, "ends within a number");
  ExpectRefusal(packed, 2, reason::kOverLimit, "more than 2 ids", 2);
  // A count that promises more than there is allocates nothing.
  ExpectRefusal(std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10), 1, reason::kBadSize,
                "announces 18446744073709551615 ids");
  // Distances that would wrap around.
  ExpectRefusal(std::string("\x02\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12), 1,
                reason::kBadRowId, "must be below");
  ExpectRefusal(std::string(12, '\xff'), 1, reason::kBadSize, "ends within a number");
}

}  // namespace
}  // namespace dslide::wire

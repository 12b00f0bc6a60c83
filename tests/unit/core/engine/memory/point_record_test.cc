#include "core/engine/memory/point_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<RowId> PointIds(std::initializer_list<uint32_t> ids) {
  return std::vector<RowId>(ids.begin(), ids.end());
}

TEST(PointRecord, HoldsFeaturesValuesAndLabels) {
  const std::string record =
      EncodePoint(PointIds({3, 9}), {0.5f, 1.0f / 3}, PointIds({1, 4, 70000}),
                  {.number = 0xffffffff, .time = 20000});
  ASSERT_TRUE(CheckPointRecord(record).ok());
  const PointView point(record.data());
  EXPECT_EQ(point.number(), 0xffffffff);
  EXPECT_EQ(point.time(), 20000);
  EXPECT_THAT(point.features(), ElementsAre(RowId(3), RowId(9)));
  EXPECT_THAT(point.labels(), ElementsAre(RowId(1), RowId(4), RowId(70000)));
  EXPECT_EQ(ToFloat(point.values()[0]), 0.5f);
  EXPECT_EQ(ToFloat(point.values()[1]), ToFloat(ToBFloat16(1.0f / 3)));
  EXPECT_FLOAT_EQ(SquaredLength(point),
                  0.25f + ToFloat(point.values()[1]) * ToFloat(point.values()[1]));
}

TEST(PointRecord, MayBeEmpty) {
  const std::string record = EncodePoint({}, {}, {});
  ASSERT_TRUE(CheckPointRecord(record).ok());
  EXPECT_EQ(PointView(record.data()).num_features(), 0);
  EXPECT_FALSE(PointView().present());
}

TEST(PointRecord, DamageIsFound) {
  const std::string good = EncodePoint(PointIds({3, 9}), {0.5f, 0.25f}, PointIds({1, 4}));
  const auto damaged = [&](size_t at, uint32_t value) {
    std::string bad = good;
    std::memcpy(bad.data() + at, &value, sizeof(value));
    return std::string(CheckPointRecord(bad).message());
  };
  EXPECT_THAT(std::string(CheckPointRecord(good.substr(0, 14)).message()), HasSubstr("is cut"));
  EXPECT_THAT(std::string(CheckPointRecord(good.substr(0, good.size() - 1)).message()),
              HasSubstr("do not fit"));
  EXPECT_THAT(damaged(8, 0xffffffff), HasSubstr("do not fit"));
  EXPECT_THAT(damaged(16, 9), HasSubstr("features that do not ascend"));
  EXPECT_THAT(damaged(24, 4), HasSubstr("labels that do not ascend"));
  EXPECT_THAT(damaged(32, 0x7f807f80), HasSubstr("not finite"));
}

}  // namespace
}  // namespace dslide

#include "core/base/units.h"

#include <gtest/gtest.h>

namespace dslide {
namespace {

TEST(UnitsTest, ByteSizesHaveSuffixes) {
  EXPECT_EQ(*ParseByteSize("0"), 0);
  EXPECT_EQ(*ParseByteSize("4096"), 4096);
  EXPECT_EQ(*ParseByteSize("64KiB"), 65536);
  EXPECT_EQ(*ParseByteSize(" 64 MiB "), 64 << 20);
  EXPECT_EQ(*ParseByteSize("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(*ParseByteSize("2MB"), 2000000);
}

TEST(UnitsTest, OtherTextIsNoSize) {
  for (const char* text :
       {"", "MiB", "-1", "1mib", "1e3", "1.5", "1 2", "0.0000001KiB", "99999999999TiB", "1MiB2"}) {
    EXPECT_FALSE(ParseByteSize(text).ok()) << text;
  }
}

TEST(UnitsTest, FormattedSizesReadBack) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{65536}, int64_t{65537},
                              int64_t{3} << 29, int64_t{1} << 50}) {
    EXPECT_EQ(*ParseByteSize(FormatByteSize(bytes)), bytes) << FormatByteSize(bytes);
  }
  EXPECT_EQ(FormatByteSize(64 << 20), "64MiB");
}

TEST(UnitsTest, DurationsNeedAUnit) {
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  for (const char* text : {"", "5", "-1s", "inf", "5 parsecs"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

}  // namespace
}  // namespace dslide

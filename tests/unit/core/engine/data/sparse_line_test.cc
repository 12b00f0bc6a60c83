#include "core/engine/data/sparse_line.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <string>

#include "absl/strings/str_format.h"
#include "core/base/counter_rng.h"

namespace dslide {
namespace {

TEST(ParseFloatTest, EqualsStrtofBitForBit) {
  CounterRng rng(17);
  for (int i = 0; i < 200000; ++i) {
    std::string text;
    switch (rng.NextBelow(4)) {
      case 0:  // what counts and tf-idf weights look like: the short path
        text = absl::StrFormat("%d.%d", rng.NextBelow(100), rng.NextBelow(1000000));
        break;
      case 1:
        text = absl::StrFormat("%d", rng.NextBelow(100000000));
        break;
      case 2:
        text = absl::StrFormat("%.9g", std::bit_cast<float>(static_cast<uint32_t>(rng.NextBits())));
        break;
      default:
        text = absl::StrFormat("0.%0*d", static_cast<int>(rng.NextBelow(12)) + 1,
                               rng.NextBelow(10000000));
    }
    const float expected = std::strtof(text.c_str(), nullptr);
    float parsed = -1.0f;
    const bool good = ParseFloat(text, &parsed);
    if (!std::isfinite(expected)) {
      EXPECT_FALSE(good) << text;
      continue;
    }
    ASSERT_TRUE(good) << text;
    ASSERT_EQ(std::bit_cast<uint32_t>(parsed), std::bit_cast<uint32_t>(expected)) << text;
  }
}

TEST(ParseFloatTest, AcceptsEveryDecimalForm) {
  const std::pair<const char*, float> cases[] = {{"1", 1.0f},
                                                 {"1.", 1.0f},
                                                 {".5", 0.5f},
                                                 {"-2.5", -2.5f},
                                                 {"1e3", 1000.0f},
                                                 {"1E-2", 0.01f},
                                                 {"1e+2", 100.0f},
                                                 {"0", 0.0f},
                                                 {"007", 7.0f},
                                                 {"1e-60", 0.0f},
                                                 {"1e-9999", 0.0f},
                                                 {"1e-40", 1e-40f},
                                                 {"123456789", 123456789.0f}};
  for (const auto& [text, expected] : cases) {
    float parsed = -1.0f;
    EXPECT_TRUE(ParseFloat(text, &parsed)) << text;
    EXPECT_EQ(parsed, expected) << text;
  }
  float tiny = -1.0f;
  EXPECT_TRUE(ParseFloat("0." + std::string(500, '0') + "1", &tiny));
  EXPECT_EQ(tiny, 0.0f);
}

TEST(ParseFloatTest, RefusesWhatIsNotAFiniteNumber) {
  for (const char* text :
       {"",       ".",   "-",    "nan", "NaN", "inf", "-inf", "infinity", "1e39", "-1e39",
        "1e9999", "1,5", "0x10", "1f",  "+1",  " 1",  "1 ",   "1e",       "--1",  "1..2"}) {
    float parsed = 0.0f;
    EXPECT_FALSE(ParseFloat(text, &parsed)) << text << " gave " << parsed;
  }
}

TEST(SparseLineParserTest, AMalformedLineLeavesTheBatchAsItWas) {
  const SparseLineParser parser(10, 10);
  SparseBatch batch;
  LineError error;
  ASSERT_TRUE(parser.Parse("1,2 3:1 4:2", &batch, &error));
  EXPECT_FALSE(parser.Parse("5,6 7:1 8:oops", &batch, &error));
  EXPECT_EQ(batch.samples(), 1);
  EXPECT_EQ(batch.features.size(), 2u);
  EXPECT_EQ(batch.values.size(), 2u);
  EXPECT_EQ(batch.labels.size(), 2u);
}

}  // namespace
}  // namespace dslide

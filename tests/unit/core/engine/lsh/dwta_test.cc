#include "core/engine/lsh/dwta.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

HashSpec DwtaSpec(int64_t codes, int64_t tables, int64_t bin_size) {
  HashSpec spec;
  spec.family = HashFamilyKind::kDwta;
  spec.codes_per_table = codes;
  spec.num_tables = tables;
  spec.bin_size = bin_size;
  return spec;
}

std::vector<uint32_t> OfQueries(const Dwta& dwta, const std::vector<float>& hidden) {
  const auto count = static_cast<int64_t>(hidden.size()) / dwta.dim();
  std::vector<uint32_t> fingerprints(count * dwta.num_tables());
  dwta.HashQueries(hidden, count, Parallelism{}, absl::MakeSpan(fingerprints));
  return fingerprints;
}

std::vector<uint32_t> OfDwtaRow(const Dwta& dwta, const std::vector<float>& row,
                                const std::vector<float>& extras) {
  std::vector<uint32_t> fingerprints(dwta.num_tables());
  dwta.HashRows(row, extras, 1, Parallelism{}, absl::MakeSpan(fingerprints));
  return fingerprints;
}

// How often each code occurs, over all tables.
std::map<uint32_t, int64_t> CountCodes(const std::vector<uint32_t>& fingerprints, int64_t codes,
                                       int64_t code_bits) {
  std::map<uint32_t, int64_t> counts;
  for (const uint32_t fingerprint : fingerprints) {
    for (int64_t k = 0; k < codes; ++k) {
      ++counts[(fingerprint >> (k * code_bits)) & ((1u << code_bits) - 1)];
    }
  }
  return counts;
}

// The public SLIDE code gives all of these to position 0.
TEST(DwtaTest, AllZeroHiddenVectorSpreadsOverCodes) {
  const Dwta dwta(DwtaSpec(3, 200, 8), 64);
  const auto counts = CountCodes(OfQueries(dwta, std::vector<float>(64, 0.0f)), 3, 3);
  ASSERT_EQ(counts.size(), 8u);
  // Each bin with the constant 1 lends its code to about 7 others, so counts are uneven.
  for (const auto& [code, count] : counts) EXPECT_LT(count, 600 / 3) << "code " << code;
}

TEST(DwtaTest, NinetyPercentZerosSpreadOverBuckets) {
  constexpr int64_t kQueries = 200;
  const Dwta dwta(DwtaSpec(3, 4, 8), 128);
  const std::vector<uint32_t> all = OfQueries(dwta, RandomHidden(kQueries, 128, 0.9, 3));
  const auto counts = CountCodes(all, 3, 3);
  ASSERT_EQ(counts.size(), 8u);
  for (const auto& [code, count] : counts) EXPECT_LT(count, kQueries * 12 / 4) << "code " << code;
  for (int64_t t = 0; t < 4; ++t) {
    std::set<uint32_t> buckets;
    for (int64_t q = 0; q < kQueries; ++q) buckets.insert(all[q * 4 + t]);
    EXPECT_GT(buckets.size(), 50u) << "table " << t;
  }
}

// A borrowed code depends on the lender alone: two queries that differ only in size of their few
// entries, not in order, agree everywhere.
TEST(DwtaTest, OnlyTheOrderOfEntriesCounts) {
  const Dwta dwta(DwtaSpec(3, 40, 8), 128);
  std::vector<float> hidden = RandomHidden(1, 128, 0.9, 4);
  for (float& value : hidden) value *= 8.0f;
  std::vector<float> monotone = hidden;
  for (float& value : monotone) {
    // Keeps zeros, the order, and who is above the query's constant 1.
    if (value > 1.0f) value = value * value;
  }
  EXPECT_EQ(OfQueries(dwta, hidden), OfQueries(dwta, monotone));
}

// One bin of all coordinates: the code is the position of the maximum.
class DwtaWinnerTest : public ::testing::Test {
 protected:
  // 2 coordinates and 2 extras make one bin of 4.
  DwtaWinnerTest() : dwta_(DwtaSpec(1, 8, 4), 2) {}
  const Dwta dwta_;
};

TEST_F(DwtaWinnerTest, RowsCountNegativeEntriesAndZeros) {
  // The largest entry of a row of negative numbers, wherever it is, decides: not its sign.
  EXPECT_EQ(OfDwtaRow(dwta_, {-3.0f, -1.0f}, {-2.0f, -4.0f}),
            OfDwtaRow(dwta_, {5.0f, 7.0f}, {6.0f, 0.0f}));
  // Zero is a value in a row.
  EXPECT_EQ(OfDwtaRow(dwta_, {-3.0f, 0.0f}, {-2.0f, -1.0f}),
            OfDwtaRow(dwta_, {5.0f, 7.0f}, {6.0f, 0.0f}));
}

TEST_F(DwtaWinnerTest, QueryZeroNeverBeatsANegativeEntry) {
  // Present: -5 and the constant 1. With 0 as a value the answer would be the same; so compare with
  // a query whose first entry is the larger one.
  const std::vector<uint32_t> one_wins = OfQueries(dwta_, {-5.0f, 0.0f});
  EXPECT_EQ(one_wins, OfDwtaRow(dwta_, {0.0f, 0.0f}, {1.0f, 0.0f}));
  EXPECT_NE(one_wins, OfQueries(dwta_, {5.0f, 0.0f}));
  EXPECT_EQ(OfQueries(dwta_, {5.0f, 0.0f}), OfDwtaRow(dwta_, {1.0f, 0.0f}, {0.0f, 0.0f}));
}

TEST_F(DwtaWinnerTest, NormCoordinateNeverWinsForAQuery) {
  const std::vector<uint32_t> norm_wins = OfDwtaRow(dwta_, {0.0f, 0.0f}, {0.0f, 1.0f});
  for (const std::vector<float>& hidden :
       {std::vector<float>{0, 0}, {-2, -1}, {3, 0}, {0, 3}, {2, 2}}) {
    const std::vector<uint32_t> query = OfQueries(dwta_, hidden);
    for (size_t t = 0; t < query.size(); ++t) EXPECT_NE(query[t], norm_wins[t]);
  }
}

// In bins of 2 without the constant 1, {0, -5} has one entry present: the negative one wins.
TEST(DwtaTest, NegativeEntryWinsOverMissingOnes) {
  constexpr int64_t kTables = 64;
  const Dwta dwta(DwtaSpec(1, kTables, 2), 2);
  const std::vector<uint32_t> query = OfQueries(dwta, {0.0f, -5.0f});
  // A row says where coordinate 1 is: it wins there, wherever it is in a bin.
  const std::vector<uint32_t> row = OfDwtaRow(dwta, {0.0f, 9.0f}, {0.0f, 0.0f});
  // Its opposite: coordinate 1 loses wherever it is.
  const std::vector<uint32_t> loser = OfDwtaRow(dwta, {0.0f, -9.0f}, {0.0f, 0.0f});
  // And where the constant is.
  const std::vector<uint32_t> constant = OfDwtaRow(dwta, {0.0f, 0.0f}, {9.0f, 0.0f});
  int64_t decided = 0;
  for (int64_t t = 0; t < kTables; ++t) {
    const bool has_coordinate_1 = row[t] != loser[t];
    if (!has_coordinate_1) continue;
    // Either coordinate 1 wins, or it shares the bin with the constant, which beats it.
    EXPECT_TRUE(query[t] == row[t] || query[t] == constant[t]);
    decided += query[t] == row[t];
  }
  EXPECT_GT(decided, kTables / 8);
}

}  // namespace
}  // namespace dslide

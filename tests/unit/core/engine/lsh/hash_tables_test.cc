#include "core/engine/lsh/hash_tables.h"

#include <vector>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"
#include "tests/reference/lsh_reference.h"

namespace dslide {
namespace {

struct Case {
  int64_t rows, tables, bits;
  uint32_t distinct;  // fingerprints in use, spread over all bits
};

using HashTablesRowFingerprints = std::vector<std::vector<uint32_t>>;

uint32_t Spread(uint32_t value, const Case& param) {
  return static_cast<uint32_t>(CounterBits(17, value) & ((uint64_t{1} << param.bits) - 1));
}

HashTablesRowFingerprints RandomFingerprints(const Case& param, uint64_t seed) {
  CounterRng rng(seed);
  HashTablesRowFingerprints all(param.rows, std::vector<uint32_t>(param.tables));
  for (std::vector<uint32_t>& row : all) {
    for (uint32_t& fingerprint : row) {
      fingerprint = Spread(static_cast<uint32_t>(rng.NextBelow(param.distinct)), param);
    }
  }
  return all;
}

std::vector<LocalRow> RowsOfBucket(const BucketRows& bucket) {
  std::vector<LocalRow> rows;
  for (int64_t i = 0; i < bucket.size(); ++i) rows.push_back(bucket[i]);
  return rows;
}

void ExpectBuckets(const HashTables& tables, const RowCodes& codes,
                   const HashTablesRowFingerprints& all, const Case& param) {
  for (int64_t t = 0; t < param.tables; ++t) {
    for (uint32_t value = 0; value < param.distinct + 3; ++value) {  // the last are in no row
      const uint32_t fingerprint = Spread(value, param);
      const BucketRows bucket = tables.Bucket(codes, t, fingerprint);
      EXPECT_EQ(RowsOfBucket(bucket), reference::RowsSharingABucket(all, t, fingerprint));
      for (int64_t i = 0; i < bucket.size(); ++i) {
        EXPECT_EQ(bucket.signed_rows()[i],
                  tables.layout().Pack(bucket[i], codes.SketchFor(t)(codes.WordsOf(bucket[i]))));
      }
      if (bucket.size() > 2) {
        const BucketRows part = bucket.Part(1, bucket.size() - 2);
        EXPECT_EQ(part.size(), bucket.size() - 2);
        EXPECT_EQ(part.signed_rows(), bucket.signed_rows() + 1);
        EXPECT_EQ(part[0], bucket[1]);
      }
    }
  }
}

class HashTablesTest : public ::testing::TestWithParam<Case> {};

TEST_P(HashTablesTest, BucketHoldsTheRowsOfItsFingerprintAscending) {
  const Case& param = GetParam();
  RowCodes codes;
  codes.Reset(param.tables, param.bits, /*bits_per_code=*/1, param.rows);
  HashTables tables;
  tables.Reset(codes, codes.num_tables(), /*with_sketches=*/true);
  HashTablesRowFingerprints all = RandomFingerprints(param, 3);
  for (int64_t r = 0; r < param.rows; ++r) codes.Set(r, all[r].data());
  tables.Sort(codes, Parallelism{1});
  ExpectBuckets(tables, codes, all, param);

  const HashTablesRowFingerprints changed = RandomFingerprints(param, 4);
  for (int64_t r = 0; r < param.rows; r += 3) {
    all[r] = changed[r];
    codes.Set(r, all[r].data());
  }
  tables.Sort(codes, Parallelism{3});
  ExpectBuckets(tables, codes, all, param);
}

TEST_P(HashTablesTest, BucketsAreTheSameWithoutSketches) {
  const Case& param = GetParam();
  const HashTablesRowFingerprints all = RandomFingerprints(param, 5);
  RowCodes codes;
  codes.Reset(param.tables, param.bits, /*bits_per_code=*/1, param.rows);
  for (int64_t r = 0; r < param.rows; ++r) codes.Set(r, all[r].data());
  HashTables tables;
  tables.Reset(codes, codes.num_tables(), /*with_sketches=*/false);
  tables.Sort(codes, Parallelism{2});
  for (int64_t t = 0; t < param.tables; ++t) {
    for (uint32_t value = 0; value < param.distinct; ++value) {
      const uint32_t fingerprint = Spread(value, param);
      EXPECT_EQ(RowsOfBucket(tables.Bucket(codes, t, fingerprint)),
                reference::RowsSharingABucket(all, t, fingerprint));
    }
  }
}

TEST_P(HashTablesTest, RowsThatAreLeftOutLieInNoBucket) {
  const Case& param = GetParam();
  const HashTablesRowFingerprints all = RandomFingerprints(param, 6);
  RowCodes codes;
  codes.Reset(param.tables, param.bits, /*bits_per_code=*/1, param.rows);
  for (int64_t r = 0; r < param.rows; ++r) codes.Set(r, all[r].data());
  std::vector<uint8_t> left_out(static_cast<size_t>(param.rows), 0);
  for (int64_t r = 0; r < param.rows; r += 1 + r % 3) left_out[r] = 1;
  HashTables tables;
  tables.Reset(codes, codes.num_tables(), /*with_sketches=*/true);
  for (const bool all_again : {false, true}) {
    tables.Sort(codes, Parallelism{2}, all_again ? absl::Span<const uint8_t>() : left_out);
    for (int64_t t = 0; t < param.tables; ++t) {
      for (uint32_t value = 0; value < param.distinct; ++value) {
        const uint32_t fingerprint = Spread(value, param);
        std::vector<LocalRow> expected = reference::RowsSharingABucket(all, t, fingerprint);
        std::erase_if(expected,
                      [&](LocalRow row) { return !all_again && left_out[row.value()] != 0; });
        EXPECT_EQ(RowsOfBucket(tables.Bucket(codes, t, fingerprint)), expected);
      }
    }
  }
}

TEST_P(HashTablesTest, MemoryIsAFewBytesARowAndTable) {
  const Case& param = GetParam();
  RowCodes codes;
  codes.Reset(param.tables, param.bits, /*bits_per_code=*/1, param.rows);
  HashTables tables;
  tables.Reset(codes, codes.num_tables(), /*with_sketches=*/true);
  EXPECT_GE(tables.memory_bytes(), param.rows * param.tables * (4 + 4));
  EXPECT_LE(tables.memory_bytes(),
            param.tables * (param.rows * (4 + 4 + 16) + (int64_t{1} << 8) * 4 + 64));
  EXPECT_EQ(tables.memory_bytes(),
            HashTables::BytesFor(param.tables, param.bits, param.rows, /*with_sketches=*/true));
}

TEST(HashTablesTest, SketchesAreThereOnlyWhereWanted) {
  RowCodes codes;
  codes.Reset(/*num_tables=*/3, /*codes_per_table=*/6, /*bits_per_code=*/1, /*num_rows=*/50);
  HashTables tables;
  tables.Reset(codes, codes.num_tables(), /*with_sketches=*/false);
  tables.Sort(codes, Parallelism{1});
  const BucketRows bucket = tables.Bucket(codes, 1, 0);
  ASSERT_EQ(bucket.size(), 50);
  EXPECT_EQ(bucket.signed_rows(), nullptr);
  for (int64_t i = 0; i < bucket.size(); ++i) EXPECT_EQ(bucket.rows()[i], bucket[i]);
  EXPECT_EQ(bucket.Part(7, 3).rows(), bucket.rows() + 7);
  EXPECT_EQ(tables.memory_bytes(), HashTables::BytesFor(3, 6, 50, /*with_sketches=*/false));
  tables.Reset(codes, codes.num_tables(), /*with_sketches=*/true);
  EXPECT_EQ(tables.memory_bytes(), HashTables::BytesFor(3, 6, 50, /*with_sketches=*/true));
  EXPECT_EQ(HashTables::BytesFor(3, 6, 50, true) - HashTables::BytesFor(3, 6, 50, false),
            3 * 50 * 4);
}

INSTANTIATE_TEST_SUITE_P(Shapes, HashTablesTest,
                         ::testing::Values(Case{0, 3, 8, 4}, Case{1, 1, 1, 2}, Case{500, 5, 4, 16},
                                           Case{500, 3, 16, 60}, Case{500, 3, 17, 60},
                                           Case{300, 2, 24, 200}, Case{1000, 2, 9, 1}));

}  // namespace
}  // namespace dslide

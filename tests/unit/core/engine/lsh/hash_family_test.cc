// What both hash families must do.

#include "core/engine/lsh/hash_family.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/reference/lsh_reference.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::Lt;

struct HashFamilyShape {
  HashFamilyKind family;
  int64_t dim, codes, tables, bin_size;
};

HashSpec SpecOf(const HashFamilyShape& shape) {
  HashSpec spec;
  spec.family = shape.family;
  spec.codes_per_table = shape.codes;
  spec.num_tables = shape.tables;
  spec.bin_size = shape.bin_size;
  return spec;
}

class HashFamilyTest : public ::testing::TestWithParam<HashFamilyShape> {
 protected:
  HashFamilyTest()
      : spec_(SpecOf(GetParam())), family_(*HashFamily::Create(spec_, GetParam().dim)) {}

  std::vector<uint32_t> HashQueries(const std::vector<float>& hidden, int threads = 1) const {
    const auto count = static_cast<int64_t>(hidden.size()) / family_->dim();
    std::vector<uint32_t> fingerprints(count * family_->num_tables(), 0xffffffff);
    family_->HashQueries(hidden, count, Parallelism{threads}, absl::MakeSpan(fingerprints));
    return fingerprints;
  }

  std::vector<uint32_t> HashRows(const std::vector<float>& rows, const std::vector<float>& extras,
                                 int threads = 1) const {
    const auto count = static_cast<int64_t>(extras.size()) / 2;
    std::vector<uint32_t> fingerprints(count * family_->num_tables(), 0xffffffff);
    family_->HashRows(rows, extras, count, Parallelism{threads}, absl::MakeSpan(fingerprints));
    return fingerprints;
  }

  // What the reference makes of the same vectors. `extras` is empty for queries.
  std::vector<uint32_t> Expected(const std::vector<float>& vectors,
                                 const std::vector<float>& extras) const {
    std::vector<uint32_t> all;
    const int64_t dim = family_->dim();
    for (int64_t i = 0; i * dim < static_cast<int64_t>(vectors.size()); ++i) {
      reference::HashVector vector;
      vector.values.assign(vectors.begin() + i * dim, vectors.begin() + (i + 1) * dim);
      if (!extras.empty()) {
        vector.is_query = false;
        vector.extra1 = extras[2 * i];
        vector.extra2 = extras[2 * i + 1];
      }
      const std::vector<uint32_t> one = reference::Fingerprints(spec_, vector);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  const HashSpec spec_;
  const std::unique_ptr<HashFamily> family_;
};

std::vector<float> RandomNormals(int64_t count, uint64_t seed) {
  CounterRng rng(seed);
  std::vector<float> values(count);
  for (float& value : values) value = rng.NextGaussian();
  return values;
}

TEST_P(HashFamilyTest, SaysItsShape) {
  EXPECT_EQ(family_->dim(), GetParam().dim);
  EXPECT_EQ(family_->num_tables(), GetParam().tables);
  EXPECT_GE(family_->fingerprint_bits(), 1);
  EXPECT_LE(family_->fingerprint_bits(), 24);
}

TEST_P(HashFamilyTest, QueriesEqualTheReferenceBitForBit) {
  for (const double zeros : {0.0, 0.5, 0.9}) {
    const std::vector<float> hidden = RandomHidden(19, GetParam().dim, zeros, 5);
    EXPECT_EQ(HashQueries(hidden), Expected(hidden, {})) << "zeros " << zeros;
  }
}

TEST_P(HashFamilyTest, RowsEqualTheReferenceBitForBit) {
  const std::vector<float> rows = RandomNormals(19 * GetParam().dim, 6);
  const std::vector<float> extras = RandomNormals(19 * 2, 7);
  EXPECT_EQ(HashRows(rows, extras), Expected(rows, extras));
}

TEST_P(HashFamilyTest, FingerprintsFitTheirBits) {
  const auto limit = uint32_t{1} << family_->fingerprint_bits();
  EXPECT_THAT(HashQueries(RandomHidden(50, GetParam().dim, 0.5, 8)), Each(Lt(limit)));
  EXPECT_THAT(HashRows(RandomNormals(50 * GetParam().dim, 9), RandomNormals(100, 10)),
              Each(Lt(limit)));
}

TEST_P(HashFamilyTest, NeitherBatchNorThreadsChangeABit) {
  const int64_t dim = GetParam().dim;
  const std::vector<float> hidden = RandomHidden(133, dim, 0.5, 11);
  const std::vector<uint32_t> together = HashQueries(hidden);
  for (const int threads : {2, 3, 8}) EXPECT_EQ(HashQueries(hidden, threads), together);
  for (int64_t i = 0; i < 133; i += 44) {
    const std::vector<float> one(hidden.begin() + i * dim, hidden.begin() + (i + 1) * dim);
    const auto begin = together.begin() + i * GetParam().tables;
    EXPECT_EQ(HashQueries(one), std::vector<uint32_t>(begin, begin + GetParam().tables));
  }
}

TEST_P(HashFamilyTest, AllZeroQueriesAndRowsAreHashedLikeAnyOther) {
  const std::vector<float> zeros(3 * GetParam().dim, 0.0f);
  EXPECT_EQ(HashQueries(zeros), Expected(zeros, {}));
  const std::vector<float> extras(3 * 2, 0.0f);
  EXPECT_EQ(HashRows(zeros, extras), Expected(zeros, extras));
}

TEST_P(HashFamilyTest, NegativeZeroIsZero) {
  const std::vector<float> plus(GetParam().dim, 0.0f);
  const std::vector<float> minus(GetParam().dim, -0.0f);
  EXPECT_EQ(HashQueries(minus), HashQueries(plus));
  EXPECT_EQ(HashRows(minus, {-0.0f, 0.0f}), HashRows(plus, {0.0f, 0.0f}));
}

TEST_P(HashFamilyTest, NoVectorsNoFingerprints) {
  EXPECT_TRUE(HashQueries({}).empty());
  EXPECT_TRUE(HashRows({}, {}).empty());
}

TEST_P(HashFamilyTest, AnotherSeedGivesAnotherFunction) {
  const std::vector<float> hidden = RandomHidden(64, GetParam().dim, 0.3, 12);
  const std::vector<uint32_t> own = HashQueries(hidden);
  // One bit of one dimension is equal for half of the seeds; so try several.
  int64_t different = 0;
  for (uint64_t step = 1; step <= 30; ++step) {
    HashSpec other_spec = spec_;
    other_spec.seed = spec_.seed + step;
    const std::unique_ptr<HashFamily> other = *HashFamily::Create(other_spec, GetParam().dim);
    std::vector<uint32_t> fingerprints(own.size());
    other->HashQueries(hidden, 64, Parallelism{}, absl::MakeSpan(fingerprints));
    different += fingerprints != own;
  }
  EXPECT_GE(different, GetParam().dim > 1 ? 30 : 5);
}

// Directions of very few dimensions are all alike, so these shapes have more.
using HashFamilyQualityTest = HashFamilyTest;

// A query and a row that points the same way agree more often than a query and a random row.
TEST_P(HashFamilyQualityTest, SimilarVectorsShareFingerprintsMoreOften) {
  const int64_t dim = GetParam().dim;
  constexpr int64_t kCount = 400;
  const std::vector<float> hidden = RandomHidden(kCount, dim, 0.3, 13);
  std::vector<float> near = hidden;
  std::vector<float> far = RandomHidden(kCount, dim, 0.3, 15);
  const std::vector<float> noise = RandomNormals(kCount * dim, 14);
  for (size_t i = 0; i < near.size(); ++i) near[i] += 0.1f * noise[i];
  for (float& value : far) value -= 0.56f;  // a mean of about 0
  const std::vector<float> extras(kCount * 2, 0.0f);
  const std::vector<uint32_t> query = HashQueries(hidden);
  const auto shared = [&](const std::vector<uint32_t>& rows) {
    int64_t same = 0;
    for (size_t i = 0; i < query.size(); ++i) same += query[i] == rows[i];
    return static_cast<double>(same) / static_cast<double>(query.size());
  };
  EXPECT_GT(shared(HashRows(near, extras)), 2 * shared(HashRows(far, extras)) + 0.02);
}

std::string ShapeName(const ::testing::TestParamInfo<HashFamilyShape>& param) {
  const HashFamilyShape& shape = param.param;
  return std::string(shape.family == HashFamilyKind::kDwta ? "Dwta" : "SimHash") + "Dim" +
         std::to_string(shape.dim) + "K" + std::to_string(shape.codes) + "L" +
         std::to_string(shape.tables) + "Bin" + std::to_string(shape.bin_size);
}

// A full block of bits and less, several blocks and a part, dim at and just above a power of two.
const auto kWideShapes =
    ::testing::Values(HashFamilyShape{HashFamilyKind::kSimHash, 128, 9, 12, 8},
                      HashFamilyShape{HashFamilyKind::kSimHash, 128, 11, 13, 8},
                      HashFamilyShape{HashFamilyKind::kSimHash, 64, 8, 16, 8},
                      HashFamilyShape{HashFamilyKind::kSimHash, 33, 7, 11, 8},
                      HashFamilyShape{HashFamilyKind::kDwta, 128, 3, 12, 8},
                      HashFamilyShape{HashFamilyKind::kDwta, 33, 4, 11, 16},
                      HashFamilyShape{HashFamilyKind::kDwta, 20, 8, 5, 2});
// dim below the smallest width, bins larger than the vector, the most bits.
const auto kExtremeShapes =
    ::testing::Values(HashFamilyShape{HashFamilyKind::kSimHash, 3, 5, 9, 8},
                      HashFamilyShape{HashFamilyKind::kSimHash, 1, 1, 1, 8},
                      HashFamilyShape{HashFamilyKind::kSimHash, 20, 24, 3, 8},
                      HashFamilyShape{HashFamilyKind::kDwta, 3, 3, 4, 8},
                      HashFamilyShape{HashFamilyKind::kDwta, 1, 1, 2, 256},
                      HashFamilyShape{HashFamilyKind::kDwta, 300, 3, 6, 256});

INSTANTIATE_TEST_SUITE_P(Wide, HashFamilyTest, kWideShapes, ShapeName);
INSTANTIATE_TEST_SUITE_P(Extreme, HashFamilyTest, kExtremeShapes, ShapeName);
INSTANTIATE_TEST_SUITE_P(Wide, HashFamilyQualityTest, kWideShapes, ShapeName);

}  // namespace
}  // namespace dslide

// Fingerprints that must never change: clients in other languages compute the same ones. The
// numbers come from the Python of docs/understand/hashing.md, section 6.

#include <memory>
#include <vector>

#include "core/engine/lsh/hash_family.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;

// Entry i is ((37 i + 11) mod 101 - 50) / 64; for a query, what is below 1/4 becomes 0.
std::vector<float> GoldenVector(int64_t dim, bool query) {
  std::vector<float> values(dim);
  for (int64_t i = 0; i < dim; ++i) {
    const float value = static_cast<float>((i * 37 + 11) % 101 - 50) / 64.0f;
    values[i] = query && value < 0.25f ? 0.0f : value;
  }
  return values;
}

std::unique_ptr<HashFamily> Family(HashFamilyKind kind, int64_t dim, int64_t codes, int64_t tables,
                                   int64_t bin_size = 8) {
  HashSpec spec;
  spec.family = kind;
  spec.codes_per_table = codes;
  spec.num_tables = tables;
  spec.bin_size = bin_size;
  spec.seed = 0x5eed;
  return *HashFamily::Create(spec, dim);
}

std::vector<uint32_t> OfQuery(const HashFamily& family, const std::vector<float>& hidden) {
  std::vector<uint32_t> fingerprints(family.num_tables());
  family.HashQueries(hidden, 1, Parallelism{}, absl::MakeSpan(fingerprints));
  return fingerprints;
}

std::vector<uint32_t> OfRow(const HashFamily& family, const std::vector<float>& row,
                            const std::vector<float>& extras) {
  std::vector<uint32_t> fingerprints(family.num_tables());
  family.HashRows(row, extras, 1, Parallelism{}, absl::MakeSpan(fingerprints));
  return fingerprints;
}

TEST(GoldenFingerprintsTest, SimHash) {
  const auto family = Family(HashFamilyKind::kSimHash, 20, 10, 7);
  EXPECT_THAT(OfQuery(*family, GoldenVector(20, true)),
              ElementsAre(484, 895, 933, 1019, 490, 981, 442));
  EXPECT_THAT(OfRow(*family, GoldenVector(20, false), {-0.375f, 1.5f}),
              ElementsAre(502, 985, 80, 601, 527, 1010, 168));
}

TEST(GoldenFingerprintsTest, SimHashOfTwoBlocks) {
  const auto family = Family(HashFamilyKind::kSimHash, 128, 11, 13);
  EXPECT_THAT(
      OfQuery(*family, GoldenVector(128, true)),
      ElementsAre(1970, 1305, 1397, 825, 1115, 1529, 1299, 1594, 375, 993, 1940, 1386, 1058));
}

TEST(GoldenFingerprintsTest, Dwta) {
  const auto family = Family(HashFamilyKind::kDwta, 20, 3, 7);
  EXPECT_THAT(OfQuery(*family, GoldenVector(20, true)),
              ElementsAre(249, 309, 138, 479, 109, 253, 222));
  EXPECT_THAT(OfRow(*family, GoldenVector(20, false), {-0.375f, 1.5f}),
              ElementsAre(241, 272, 87, 388, 94, 198, 349));
  EXPECT_THAT(OfQuery(*family, std::vector<float>(20, 0.0f)),
              ElementsAre(254, 490, 141, 346, 253, 126, 126));
}

TEST(GoldenFingerprintsTest, DwtaOfLargerBins) {
  const auto family = Family(HashFamilyKind::kDwta, 128, 4, 9, 16);
  EXPECT_THAT(OfQuery(*family, GoldenVector(128, true)),
              ElementsAre(32022, 22745, 4076, 17487, 52299, 6578, 63954, 53513, 41026));
}

}  // namespace
}  // namespace dslide

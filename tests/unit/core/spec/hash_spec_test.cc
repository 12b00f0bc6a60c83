#include "core/spec/hash_spec.h"

#include <cmath>
#include <functional>
#include <string>

#include "core/engine/lsh/hash_family.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

struct BadField {
  const char* message;
  std::function<void(HashSpec&)> spoil;
};

TEST(HashSpecTest, DefaultIsValid) { EXPECT_TRUE(HashSpec().Validate().ok()); }

TEST(HashSpecTest, RefusalNamesFieldValueAndRange) {
  const BadField cases[] = {
      {"hash.codes_per_table is -1, must be in [0, 24]",
       [](HashSpec& s) { s.codes_per_table = -1; }},
      {"hash.codes_per_table is 25, must be in [0, 24]",
       [](HashSpec& s) { s.codes_per_table = 25; }},
      {"hash.codes_per_table is 9, must be in [0, 8]",
       [](HashSpec& s) {
         s.family = HashFamilyKind::kDwta;
         s.codes_per_table = 9;
       }},
      {"hash.num_tables is -1, must be in [0, 256]", [](HashSpec& s) { s.num_tables = -1; }},
      {"hash.num_tables is 257, must be in [0, 256]", [](HashSpec& s) { s.num_tables = 257; }},
      {"hash.bin_size is 12, must be a power of two in [2, 256]",
       [](HashSpec& s) { s.bin_size = 12; }},
      {"hash.bin_size is 1, must be a power of two in [2, 256]",
       [](HashSpec& s) { s.bin_size = 1; }},
      {"hash.bin_size is -8,", [](HashSpec& s) { s.bin_size = -8; }},
      {"hash.bin_size is 512,", [](HashSpec& s) { s.bin_size = 512; }},
      {"hash.rebuild_every_steps is -1, must be in [0, 1000000]",
       [](HashSpec& s) { s.rebuild_every_steps = -1; }},
      {"hash.bucket_read_cap is 0, must be in [1, 65536]",
       [](HashSpec& s) { s.bucket_read_cap = 0; }},
      {"hash.ranked_per_active is -1, must be in [0, 1000]",
       [](HashSpec& s) { s.ranked_per_active = -1; }},
      {"hash.ranked_per_active is 1001, must be in [0, 1000]",
       [](HashSpec& s) { s.ranked_per_active = 1001; }},
      {"hash.searched_tables is -1, must be in [0, 256]",
       [](HashSpec& s) { s.searched_tables = -1; }},
      {"hash.searched_tables is 5, must be in [0, 4]",
       [](HashSpec& s) {
         s.num_tables = 4;
         s.searched_tables = 5;
       }},
      {"hash.proposed_per_sample is -1, must be in [0, 65536]",
       [](HashSpec& s) { s.proposed_per_sample = -1; }},
      {"hash.proposed_per_sample is 65537, must be in [0, 65536]",
       [](HashSpec& s) { s.proposed_per_sample = 65537; }},
      {"hash.norm_quantile is 0, must be in (0, 1]", [](HashSpec& s) { s.norm_quantile = 0; }},
      {"hash.norm_quantile is 1.5, must be in (0, 1]", [](HashSpec& s) { s.norm_quantile = 1.5; }},
      {"hash.norm_quantile is nan, must be in (0, 1]",
       [](HashSpec& s) { s.norm_quantile = std::nan(""); }},
      {"hash.family is 7, must be simhash (0) or dwta (1)",
       [](HashSpec& s) { s.family = static_cast<HashFamilyKind>(7); }},
  };
  for (const BadField& bad : cases) {
    HashSpec spec;
    bad.spoil(spec);
    const absl::Status status = spec.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
    EXPECT_FALSE(HashFamily::Create(spec, 8).ok());
  }
}

TEST(HashSpecTest, FamilyRefusesUnresolvedSpecsAndBadDim) {
  HashSpec spec;
  EXPECT_THAT(std::string(HashFamily::Create(spec, 8).status().message()),
              HasSubstr("ResolveHashSpec"));
  spec.codes_per_table = 4;
  EXPECT_FALSE(HashFamily::Create(spec, 1).ok());
  spec.num_tables = 2;
  EXPECT_TRUE(HashFamily::Create(spec, 1).ok());
  EXPECT_THAT(std::string(HashFamily::Create(spec, 0).status().message()), HasSubstr("dim is 0"));
  EXPECT_THAT(std::string(HashFamily::Create(spec, 65537).status().message()),
              HasSubstr("dim is 65537"));
}

// Rows evenly spread over the addresses would fill buckets of 160 to 640 rows.
TEST(HashSpecTest, ResolvedAddressesFitTheRows) {
  for (const int64_t rows : {int64_t{8000}, int64_t{41467}, int64_t{670091}, int64_t{3} << 20}) {
    const HashSpec spec = ResolveHashSpec(HashSpec(), rows);
    EXPECT_GE(rows >> spec.codes_per_table, 160) << rows;
    EXPECT_LE(rows >> spec.codes_per_table, 640) << rows;
  }
  EXPECT_EQ(ResolveHashSpec(HashSpec(), 0).codes_per_table, 4);
  EXPECT_EQ(ResolveHashSpec(HashSpec(), int64_t{1} << 31).codes_per_table, 16);
  HashSpec dwta;
  dwta.family = HashFamilyKind::kDwta;
  EXPECT_EQ(ResolveHashSpec(dwta, 41467).codes_per_table, 2) << "of three bits each";
}

TEST(HashSpecTest, ResolvingKeepsWhatIsSet) {
  HashSpec spec;
  spec.codes_per_table = 5;
  spec.num_tables = 7;
  spec.rebuild_every_steps = 3;
  EXPECT_EQ(ResolveHashSpec(spec, 670091), spec);
}

TEST(HashSpecTest, LargeTablesAreBuiltLessOften) {
  const auto steps = [](int64_t rows) {
    return ResolveHashSpec(HashSpec(), rows).rebuild_every_steps;
  };
  EXPECT_EQ(steps(1000), steps(670091));
  EXPECT_GE(steps(30'000'000), 20 * steps(1'000'000));
}

TEST(HashSpecTest, ResolvedSpecsAreAlwaysValid) {
  for (const HashFamilyKind family : {HashFamilyKind::kSimHash, HashFamilyKind::kDwta}) {
    for (int64_t bin_size = 2; bin_size <= 256; bin_size *= 2) {
      for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{5000}, int64_t{1} << 31}) {
        HashSpec spec;
        spec.family = family;
        spec.bin_size = bin_size;
        const HashSpec resolved = ResolveHashSpec(spec, rows);
        EXPECT_TRUE(resolved.Validate().ok()) << resolved.Validate();
        EXPECT_TRUE(HashFamily::Create(resolved, 8).ok());
      }
    }
  }
}

}  // namespace
}  // namespace dslide

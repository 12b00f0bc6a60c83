#include "core/engine/lsh/candidates.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"
#include "tests/reference/lsh_reference.h"

namespace dslide {
namespace {

using RowFingerprints = std::vector<std::vector<uint32_t>>;

constexpr int64_t kRows = 300;

// K and L. The words of 64 bits are full, end in a gap, hold one table or all of them; the last one
// is short.
struct Shape {
  int64_t codes, tables;
};

class CandidatesTest : public ::testing::TestWithParam<Shape> {
 protected:
  CandidatesTest() {
    spec_.family = HashFamilyKind::kSimHash;
    spec_.codes_per_table = GetParam().codes;
    spec_.num_tables = GetParam().tables;
    spec_.seed = 5;
    spec_.ranked_per_active = 3;
    Fill();
  }

  // Rows of a few families that share most of their codes, so that buckets are full and a row is in
  // several of a query's.
  void Fill() {
    for (int64_t r = 0; r < kRows; ++r) rows_.push_back(Near(/*family=*/r % 3, /*id=*/r));
    codes_.Reset(spec_.num_tables, spec_.codes_per_table, /*bits_per_code=*/1, kRows);
    for (int64_t r = 0; r < kRows; ++r) codes_.Set(r, rows_[r].data());
    tables_.Reset(codes_, codes_.num_tables(), /*with_sketches=*/true);
    tables_.Sort(codes_, Parallelism{1});
  }

  // The codes of `family` with one in six turned over.
  std::vector<uint32_t> Near(int64_t family, int64_t id) const {
    CounterRng turns(1000 + id);
    std::vector<uint32_t> fingerprints;
    for (int64_t t = 0; t < spec_.num_tables; ++t) {
      uint32_t fingerprint = 0;
      for (int64_t k = 0; k < spec_.codes_per_table; ++k) {
        const uint64_t bit = CounterBits(family, t * 32 + k) % 2;
        fingerprint |= static_cast<uint32_t>(bit ^ (turns.NextBelow(6) == 0 ? 1 : 0)) << k;
      }
      fingerprints.push_back(fingerprint);
    }
    return fingerprints;
  }

  // Both stages; how many rows were seen.
  int64_t Collect(const CandidateSource& source, const std::vector<uint32_t>& query,
                  const std::vector<LocalRow>& labels, int64_t budget, int64_t most_tables = 0) {
    FindReads(source, query, most_tables, query_);
    CollectCandidates(source, labels, budget, scratch_, query_);
    return query_.num_seen;
  }

  void ExpectTheReference(const std::vector<uint32_t>& query, const std::vector<LocalRow>& labels,
                          int64_t budget) {
    const CandidateSource source = {.tables = tables_,
                                    .codes = codes_,
                                    .start_key = DeriveKey(spec_.seed, 3),
                                    .read_cap = spec_.bucket_read_cap,
                                    .ranked_per_active = spec_.ranked_per_active};
    const int64_t count = Collect(source, query, labels, budget);
    std::vector<LocalRow> got(query_.seen.begin(), query_.seen.begin() + count);
    for (size_t i = 0; i < labels.size(); ++i) {
      if (query_.label_found[i] != 0) got.push_back(labels[i]);
    }
    std::sort(got.begin(), got.end());
    const std::set<LocalRow> expected = reference::Candidates(spec_, rows_, query, labels, budget);
    EXPECT_EQ(got, std::vector<LocalRow>(expected.begin(), expected.end()))
        << "budget " << budget << " cap " << spec_.bucket_read_cap << " ranked "
        << spec_.ranked_per_active;
    most_ = std::max(most_, count);
  }

  HashSpec spec_;
  RowFingerprints rows_;
  RowCodes codes_;
  HashTables tables_;
  SelectScratch scratch_;
  SelectScratch::Query query_;
  int64_t most_ = 0;
};

TEST_P(CandidatesTest, AreThoseOfTheReference) {
  const std::vector<LocalRow> labels = {LocalRow(0), LocalRow(3), LocalRow(250)};
  for (const auto& [cap, ranked] : std::vector<std::pair<int64_t, int64_t>>{
           {4096, 3}, {4096, 0}, {4096, 1}, {30, 3}, {30, 10}, {2, 3}, {2, 0}}) {
    spec_.bucket_read_cap = cap;
    spec_.ranked_per_active = ranked;
    for (int64_t q = 0; q < 3; ++q) {
      const std::vector<uint32_t> query = Near(/*family=*/q, /*id=*/5000 + q);
      for (const int64_t budget : {-1, 0, 1, 5, 20, 60, 1000}) {
        ExpectTheReference(query, {}, budget);
        ExpectTheReference(query, labels, budget);
      }
    }
  }
  EXPECT_GT(most_, 3);  // that something was found at all
}

TEST_P(CandidatesTest, AreAtLeastThreeForEachPlaceButFewOfMany) {
  const CandidateSource source = {
      .tables = tables_, .codes = codes_, .start_key = 1, .read_cap = 4096, .ranked_per_active = 3};
  int64_t filtered = 0;
  for (int64_t q = 0; q < 12; ++q) {
    const std::vector<uint32_t> query = Near(/*family=*/q % 3, /*id=*/7000 + q);
    const int64_t all = Collect(source, query, {}, /*budget=*/kRows);
    for (const int64_t budget : {2, 6}) {
      const int64_t some = Collect(source, query, {}, budget);
      EXPECT_GE(some, std::min(all, 3 * budget));
      EXPECT_LE(some, all);
      filtered += all - some;
    }
  }
  EXPECT_GT(filtered, 0);
}

TEST_P(CandidatesTest, OfTheFirstTablesAreWhatThoseHold) {
  const CandidateSource source = {
      .tables = tables_, .codes = codes_, .start_key = 1, .read_cap = 4096, .ranked_per_active = 0};
  const std::vector<uint32_t> query = Near(/*family=*/1, /*id=*/9000);
  for (const int64_t most : {int64_t{1}, int64_t{2}, spec_.num_tables, spec_.num_tables + 5}) {
    std::vector<LocalRow> expected;
    for (size_t r = 0; r < rows_.size(); ++r) {
      const auto end = query.begin() + std::min(most, spec_.num_tables);
      if (!std::equal(query.begin(), end, rows_[r].begin(), std::not_equal_to<uint32_t>())) {
        expected.emplace_back(static_cast<uint32_t>(r));
      }
    }
    const int64_t count = Collect(source, query, {}, /*budget=*/kRows, most);
    std::vector<LocalRow> got(query_.seen.begin(), query_.seen.begin() + count);
    std::sort(got.begin(), got.end());
    EXPECT_EQ(got, expected) << most << " tables";
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CandidatesTest,
                         ::testing::Values(Shape{4, 40}, Shape{8, 16}, Shape{5, 30}, Shape{7, 20},
                                           Shape{4, 3}, Shape{5, 13}, Shape{16, 4}, Shape{1, 70}),
                         [](const ::testing::TestParamInfo<Shape>& shape) {
                           return "K" + std::to_string(shape.param.codes) + "L" +
                                  std::to_string(shape.param.tables);
                         });

}  // namespace
}  // namespace dslide

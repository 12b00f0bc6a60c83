// Candidate selection, for both hash families.

#include "core/engine/lsh/hash_index.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/engine/lsh/row_center.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/reference/lsh_reference.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;

constexpr int64_t kIndexDim = 24;
constexpr int64_t kNoLimit = int64_t{1} << 40;

class HashIndexTest : public ::testing::TestWithParam<HashFamilyKind> {
 protected:
  std::unique_ptr<HashIndex> MakeIndex() const { return *HashIndex::Create(spec_, kIndexDim); }

  std::unique_ptr<HashIndex> Built(const TestRows& rows, int threads = 1) const {
    auto index = MakeIndex();
    index->Build(rows, {}, Refresh::kNo, Parallelism{threads});
    return index;
  }

  // Fingerprints of `rows`, by the reference from centred rows; the centre is that of
  // `centered_on`.
  std::vector<std::vector<uint32_t>> ReferenceFingerprints(const TestRows& rows,
                                                           const TestRows& centered_on) const {
    const RowCenter center = RowCenter::Measure(centered_on, spec_, Parallelism{});
    std::vector<std::vector<uint32_t>> all;
    for (int64_t r = 0; r < rows.num_rows(); ++r) {
      std::vector<float> centered(kIndexDim);
      float extras[2];
      center.Center(rows.weights[r].data(), rows.biases[r], centered.data(), extras);
      all.push_back(reference::Fingerprints(spec_, {centered, extras[0], extras[1], false}));
    }
    return all;
  }

  // [count][L].
  std::vector<std::vector<uint32_t>> Queries(const HashIndex& index, int64_t count,
                                             uint64_t seed) const {
    const std::vector<float> hidden = RandomHidden(count, kIndexDim, 0.4, seed);
    const int64_t tables = spec_.num_tables;
    std::vector<uint32_t> flat(count * tables);
    index.family().HashQueries(hidden, count, Parallelism{}, absl::MakeSpan(flat));
    std::vector<std::vector<uint32_t>> queries;
    for (int64_t i = 0; i < count; ++i) {
      queries.emplace_back(flat.begin() + i * tables, flat.begin() + (i + 1) * tables);
    }
    return queries;
  }

  // Every bucket of every table.
  std::vector<std::vector<LocalRow>> AllBuckets(const HashIndex& index) const {
    std::vector<std::vector<LocalRow>> buckets;
    for (int64_t t = 0; t < spec_.num_tables; ++t) {
      for (uint32_t f = 0; f < uint32_t{1} << index.family().fingerprint_bits(); ++f) {
        const std::vector<LocalRow> bucket = index.Bucket(t, f);
        buckets.emplace_back(bucket.begin(), bucket.end());
      }
    }
    return buckets;
  }

  // The selection with its active rows sorted. That the labels come first is checked.
  Selection Select(const HashIndex& index, const std::vector<uint32_t>& query,
                   const std::vector<LocalRow>& labels, int64_t budget) {
    Selection selection;
    index.Select(query, labels, budget, scratch_, selection);
    EXPECT_GE(selection.active.size(), labels.size());
    EXPECT_TRUE(std::equal(labels.begin(), labels.end(), selection.active.begin()));
    std::sort(selection.active.begin(), selection.active.end());
    return selection;
  }

  HashSpec spec_ = CoarseSpec(GetParam());
  SelectScratch scratch_;
};

TEST_P(HashIndexTest, CreateRefusesWhatTheFamilyRefuses) {
  HashSpec bad = spec_;
  bad.num_tables = 0;
  EXPECT_EQ(HashIndex::Create(bad, kIndexDim).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HashIndex::Create(spec_, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(HashIndexTest, BucketsAreWhatALinearScanFinds) {
  const TestRows rows = TestRows::Random(300, kIndexDim, 1);
  const auto index = Built(rows);
  const auto fingerprints = ReferenceFingerprints(rows, rows);
  for (int64_t t = 0; t < spec_.num_tables; ++t) {
    for (uint32_t f = 0; f < uint32_t{1} << index->family().fingerprint_bits(); ++f) {
      const std::vector<LocalRow> bucket = index->Bucket(t, f);
      EXPECT_EQ(std::vector<LocalRow>(bucket.begin(), bucket.end()),
                reference::RowsSharingABucket(fingerprints, t, f));
    }
  }
}

// All budgets and label counts; caps, limits of what is ranked, tables that are not searched.
TEST_P(HashIndexTest, SelectsWhatTheReferenceSelects) {
  using Case = std::array<int64_t, 3>;
  for (const auto& [cap, ranked, searched] :
       {Case{4096, 0, 0}, Case{20, 0, 0}, Case{3, 0, 0}, Case{1, 0, 0}, Case{4096, 1, 0},
        Case{4096, 3, 0}, Case{20, 3, 0}, Case{3, 2, 0}, Case{4096, 0, 3}, Case{20, 3, 2}}) {
    spec_.bucket_read_cap = cap;
    spec_.ranked_per_active = ranked;
    spec_.searched_tables = searched;
    const TestRows rows = TestRows::Random(400, kIndexDim, 2);
    const auto index = Built(rows);
    const auto fingerprints = ReferenceFingerprints(rows, rows);
    CounterRng rng(cap);
    for (const std::vector<uint32_t>& query : Queries(*index, 30, 3)) {
      std::vector<LocalRow> labels;
      const uint64_t step = 1 + rng.NextBelow(300);
      for (uint64_t r = rng.NextBelow(300); r < 400; r += step) {
        labels.emplace_back(static_cast<uint32_t>(r));
      }
      for (const int64_t budget : std::vector<int64_t>{0, 1, 7, 60, 150, kNoLimit}) {
        const Selection got = Select(*index, query, labels, budget);
        const auto expected = reference::Select(spec_, fingerprints, query, labels, budget);
        const std::string what = absl::StrJoin({cap, ranked, searched, budget}, ", ");
        EXPECT_EQ(got.active, expected.active) << what;
        EXPECT_EQ(got.missed_labels, expected.missed_labels) << what;
      }
    }
  }
}

// What older calls marked means nothing.
TEST_P(HashIndexTest, AScratchServesAnyNumberOfCalls) {
  const TestRows rows = TestRows::Random(200, kIndexDim, 4);
  const auto index = Built(rows);
  const std::vector<std::vector<uint32_t>> queries = Queries(*index, 10, 5);
  std::vector<Selection> expected;
  for (const std::vector<uint32_t>& query : queries) {
    scratch_ = SelectScratch();
    expected.push_back(Select(*index, query, Rows({3, 77, 199}), 20));
  }
  for (size_t call = 0; call < 40000; ++call) {
    const size_t q = call % queries.size();
    const Selection got = Select(*index, queries[q], Rows({3, 77, 199}), 20);
    ASSERT_EQ(got.active, expected[q].active) << "call " << call;
    ASSERT_EQ(got.missed_labels, expected[q].missed_labels) << "call " << call;
  }
}

TEST_P(HashIndexTest, OneScratchServesIndexesOfAnySize) {
  const TestRows small = TestRows::Random(30, kIndexDim, 6);
  const TestRows large = TestRows::Random(500, kIndexDim, 7);
  const auto small_index = Built(small);
  const auto large_index = Built(large);
  for (const std::vector<uint32_t>& query : Queries(*small_index, 5, 8)) {
    for (const HashIndex* index : {small_index.get(), large_index.get(), small_index.get()}) {
      SelectScratch fresh;
      Selection expected;
      index->Select(query, {}, 25, fresh, expected);
      std::sort(expected.active.begin(), expected.active.end());
      EXPECT_EQ(Select(*index, query, {}, 25).active, expected.active);
    }
  }
}

TEST_P(HashIndexTest, LabelsAreNeverCut) {
  const TestRows rows = TestRows::Random(300, kIndexDim, 9);
  const auto index = Built(rows);
  const std::vector<LocalRow> labels = Rows({0, 5, 6, 150, 298, 299});
  for (const std::vector<uint32_t>& query : Queries(*index, 10, 10)) {
    for (const int64_t budget : {-5, 0, 1, 3, 6}) {
      EXPECT_EQ(Select(*index, query, labels, budget).active, labels);
    }
    const Selection more = Select(*index, query, labels, 16);
    EXPECT_THAT(more.active, IsSupersetOf(labels));
    EXPECT_THAT(more.active, SizeIs(16));
    EXPECT_EQ(std::adjacent_find(more.active.begin(), more.active.end()), more.active.end());
  }
}

TEST_P(HashIndexTest, FoundByHashingIsActiveWithoutTheMissedLabels) {
  Selection selection;
  selection.active = Rows({2, 5, 9});
  selection.missed_labels = Rows({5});
  EXPECT_TRUE(selection.FoundByHashing(LocalRow(2)));
  EXPECT_FALSE(selection.FoundByHashing(LocalRow(5)));
  EXPECT_TRUE(selection.FoundByHashing(LocalRow(9)));
  EXPECT_FALSE(selection.FoundByHashing(LocalRow(3)));
}

// A label does not count as found just because it is active.
TEST_P(HashIndexTest, LabelsCountAsFoundOnlyWhenHashingAloneFindsThem) {
  const TestRows rows = TestRows::Random(300, kIndexDim, 11);
  const auto index = Built(rows);
  int64_t found = 0;
  int64_t missed = 0;
  for (const std::vector<uint32_t>& query : Queries(*index, 20, 12)) {
    for (const int64_t budget : {10, 40, 100}) {
      const Selection alone = Select(*index, query, {}, budget);
      EXPECT_THAT(alone.missed_labels, IsEmpty());
      const Selection with = Select(*index, query, Rows({4, 99, 100, 250}), budget);
      for (const LocalRow label : Rows({4, 99, 100, 250})) {
        EXPECT_EQ(with.FoundByHashing(label), alone.FoundByHashing(label));
        ++(with.FoundByHashing(label) ? found : missed);
      }
    }
  }
  EXPECT_GT(found, 10);
  EXPECT_GT(missed, 10);
}

TEST_P(HashIndexTest, BeforeTheFirstBuildLabelsAloneAreActive) {
  const auto index = MakeIndex();
  EXPECT_FALSE(index->built());
  const Selection selection =
      Select(*index, std::vector<uint32_t>(spec_.num_tables, 0), Rows({1, 8}), 50);
  EXPECT_EQ(selection.active, Rows({1, 8}));
  EXPECT_EQ(selection.missed_labels, Rows({1, 8}));
  EXPECT_TRUE(index->Bucket(0, 0).empty());
}

TEST_P(HashIndexTest, NoRows) {
  const auto index = Built(TestRows(kIndexDim));
  EXPECT_TRUE(index->built());
  EXPECT_THAT(Select(*index, Queries(*index, 1, 1)[0], {}, 50).active, IsEmpty());
}

TEST_P(HashIndexTest, OneRow) {
  const TestRows rows = TestRows::Random(1, kIndexDim, 13);
  const auto index = Built(rows);
  // A single row is its own mean: it hashes to the fingerprints of zero, whatever they are.
  std::vector<uint32_t> own(spec_.num_tables);
  index->family().HashRows(std::vector<float>(kIndexDim, 0.0f), {0.0f, 0.0f}, 1, Parallelism{},
                           absl::MakeSpan(own));
  EXPECT_THAT(Select(*index, own, {}, 50).active, ElementsAre(LocalRow(0)));
  EXPECT_THAT(Select(*index, own, Rows({0}), 50).missed_labels, IsEmpty());
}

TEST_P(HashIndexTest, ZeroRowsShareOneBucketOfWhichTheCapIsRead) {
  spec_.bucket_read_cap = 10;
  TestRows rows(kIndexDim);
  rows.weights.assign(100, std::vector<float>(kIndexDim, 0.0f));
  rows.biases.assign(100, 0.0f);
  const auto index = Built(rows);
  std::vector<uint32_t> own(spec_.num_tables);
  index->family().HashRows(rows.weights[0], {0.0f, 0.0f}, 1, Parallelism{}, absl::MakeSpan(own));
  for (int64_t t = 0; t < spec_.num_tables; ++t) EXPECT_THAT(index->Bucket(t, own[t]), SizeIs(100));
  const Selection selection = Select(*index, own, {}, kNoLimit);
  // Each table starts somewhere else, so together they read more than one cap.
  EXPECT_GT(selection.active.size(), 10u);
  EXPECT_LE(selection.active.size(), 90u);
}

TEST_P(HashIndexTest, AllZeroQueryIsAnsweredAsTheReferenceDoes) {
  const TestRows rows = TestRows::Random(300, kIndexDim, 14);
  const auto index = Built(rows);
  std::vector<uint32_t> query(spec_.num_tables);
  index->family().HashQueries(std::vector<float>(kIndexDim, 0.0f), 1, Parallelism{},
                              absl::MakeSpan(query));
  const auto expected = reference::Select(spec_, ReferenceFingerprints(rows, rows), query, {}, 40);
  EXPECT_EQ(Select(*index, query, {}, 40).active, expected.active);
}

TEST_P(HashIndexTest, FingerprintsOfTooManyBitsFindNothing) {
  const TestRows rows = TestRows::Random(300, kIndexDim, 31);
  const auto index = Built(rows);
  const uint32_t limit = uint32_t{1} << index->family().fingerprint_bits();
  for (const uint32_t fingerprint : {limit, limit + 5, 0xffffffffu}) {
    const std::vector<uint32_t> query(spec_.num_tables, fingerprint);
    EXPECT_EQ(Select(*index, query, Rows({9}), 50).active, Rows({9}));
  }
}

TEST_P(HashIndexTest, ThreadsChangeNothing) {
  const TestRows rows = TestRows::Random(1000, kIndexDim, 15);
  const auto one = AllBuckets(*Built(rows, 1));
  for (const int threads : {2, 3, 8}) EXPECT_EQ(AllBuckets(*Built(rows, threads)), one);
}

TEST_P(HashIndexTest, DirtyBuildEqualsHashingEveryRowAgain) {
  TestRows rows = TestRows::Random(700, kIndexDim, 16);
  const TestRows original = rows;
  const auto incremental = Built(rows, 2);
  const auto full = Built(rows);
  CounterRng rng(17);
  std::vector<LocalRow> every_row;
  for (uint32_t r = 0; r < 700; ++r) every_row.emplace_back(r);
  for (int round = 0; round < 3; ++round) {
    std::vector<LocalRow> dirty;
    for (uint32_t r = 0; r < 700; ++r) {
      if (rng.NextBelow(5) != 0) continue;
      dirty.emplace_back(r);
      rows.biases[r] += rng.NextGaussian();
      for (float& weight : rows.weights[r]) weight += rng.NextGaussian();
    }
    incremental->Build(rows, dirty, Refresh::kNo, Parallelism{3});
    full->Build(rows, every_row, Refresh::kNo, Parallelism{1});
    EXPECT_EQ(AllBuckets(*incremental), AllBuckets(*full)) << "round " << round;
  }
  // And both still use the mean and the norm bound of the first build.
  const auto fingerprints = ReferenceFingerprints(rows, original);
  for (uint32_t r = 0; r < 700; ++r) {
    for (int64_t t = 0; t < spec_.num_tables; ++t) {
      EXPECT_THAT(incremental->Bucket(t, fingerprints[r][t]), ::testing::Contains(LocalRow(r)));
    }
  }
}

TEST_P(HashIndexTest, AStartedBuildServesWhenItIsFinished) {
  TestRows rows = TestRows::Random(400, kIndexDim, 26);
  const auto index = Built(rows);
  const auto direct = Built(rows);
  const auto before = AllBuckets(*index);
  const std::vector<LocalRow> dirty = Rows({5, 80, 399});
  for (const LocalRow row : dirty) {
    for (float& weight : rows.weights[row.value()]) weight = -weight;
  }
  direct->Build(rows, dirty, Refresh::kNo, Parallelism{});
  const auto after = AllBuckets(*direct);
  ASSERT_NE(after, before);
  for (int round = 0; round < 3; ++round) {  // the two sets of tables take turns
    index->StartBuild(rows, dirty, Refresh::kNo, Parallelism{2});
    if (round == 0) {
      EXPECT_EQ(AllBuckets(*index), before) << "the old tables serve meanwhile";
    }
    index->FinishBuild();
    EXPECT_EQ(AllBuckets(*index), after);
    index->FinishBuild();  // nothing under way
    EXPECT_EQ(AllBuckets(*index), after);
  }
}

TEST_P(HashIndexTest, ACentreThatHasNotMovedIsKept) {
  TestRows rows = TestRows::Random(400, kIndexDim, 27);
  const auto by_need = Built(rows);
  const auto kept = Built(rows);
  for (float& weight : rows.weights[5]) weight = -weight;
  by_need->Build(rows, Rows({5}), Refresh::kIfMoved, Parallelism{});
  kept->Build(rows, Rows({5}), Refresh::kNo, Parallelism{});
  EXPECT_EQ(AllBuckets(*by_need), AllBuckets(*kept)) << "one row of 400 moves the mean little";
  for (std::vector<float>& row : rows.weights) {
    for (float& weight : row) weight = 2.0f * weight + 0.5f;
  }
  by_need->Build(rows, {}, Refresh::kIfMoved, Parallelism{});
  EXPECT_EQ(AllBuckets(*by_need), AllBuckets(*Built(rows))) << "now it has moved";
}

TEST_P(HashIndexTest, RowsNotNamedDirtyKeepTheirPlaces) {
  TestRows rows = TestRows::Random(200, kIndexDim, 18);
  const auto index = Built(rows);
  const auto before = AllBuckets(*index);
  for (float& weight : rows.weights[5]) weight = -weight;
  index->Build(rows, {}, Refresh::kNo, Parallelism{});
  EXPECT_EQ(AllBuckets(*index), before);
  index->Build(rows, Rows({5}), Refresh::kNo, Parallelism{});
  EXPECT_NE(AllBuckets(*index), before);
}

TEST_P(HashIndexTest, RefreshEqualsAFreshIndex) {
  TestRows rows = TestRows::Random(300, kIndexDim, 19);
  const auto index = Built(rows);
  for (std::vector<float>& row : rows.weights) {
    for (float& weight : row) weight = 2.0f * weight + 0.5f;
  }
  index->Build(rows, {}, Refresh::kYes, Parallelism{2});
  EXPECT_EQ(AllBuckets(*index), AllBuckets(*Built(rows)));
}

TEST_P(HashIndexTest, AnotherNumberOfRowsStartsAnew) {
  const auto index = Built(TestRows::Random(300, kIndexDim, 20));
  const TestRows more = TestRows::Random(500, kIndexDim, 21);
  index->Build(more, Rows({1}), Refresh::kNo, Parallelism{});
  EXPECT_EQ(AllBuckets(*index), AllBuckets(*Built(more)));
}

// One vector added to all rows changes no softmax, so it must change no candidate. Small integers
// keep the arithmetic exact.
TEST_P(HashIndexTest, CommonDriftChangesNoBucket) {
  TestRows rows(kIndexDim);
  CounterRng rng(22);
  for (int r = 0; r < 256; ++r) {
    std::vector<float> row(kIndexDim);
    for (float& weight : row) weight = static_cast<float>(rng.NextBelow(9)) - 4.0f;
    rows.weights.push_back(row);
    rows.biases.push_back(static_cast<float>(rng.NextBelow(5)));
  }
  const auto before = AllBuckets(*Built(rows));
  for (int r = 0; r < 256; ++r) {
    rows.biases[r] += 64.0f;
    for (int64_t i = 0; i < kIndexDim; ++i) rows.weights[r][i] += static_cast<float>(8 * (i - 10));
  }
  EXPECT_EQ(AllBuckets(*Built(rows)), before);
  spec_.center = false;
  EXPECT_NE(AllBuckets(*Built(rows)), before);
}

TEST_P(HashIndexTest, ConcurrentSelectsAgree) {
  const TestRows rows = TestRows::Random(500, kIndexDim, 23);
  const auto index = Built(rows);
  const auto queries = Queries(*index, 40, 24);
  std::vector<std::vector<LocalRow>> expected;
  expected.reserve(queries.size());
  for (const auto& query : queries) {
    Selection selection;
    index->Select(query, Rows({7, 70}), 50, scratch_, selection);
    expected.push_back(selection.active);
  }
  std::vector<std::vector<std::vector<LocalRow>>> got(4);
  std::vector<std::thread> threads;
  threads.reserve(got.size());
  for (auto& results : got) {
    threads.emplace_back([&] {
      SelectScratch scratch;
      Selection selection;
      for (const auto& query : queries) {
        index->Select(query, Rows({7, 70}), 50, scratch, selection);
        results.push_back(selection.active);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& results : got) EXPECT_EQ(results, expected);
}

TEST_P(HashIndexTest, MemoryCountsRowsTimesTables) {
  const auto index = Built(TestRows::Random(1000, kIndexDim, 25));
  EXPECT_GE(index->memory_bytes(), 1000 * spec_.num_tables * 4);
  EXPECT_LE(index->memory_bytes(), 1000 * spec_.num_tables * 20);
}

// The point of it all: among 5,000 random rows the one that matches the query is a candidate.
TEST_P(HashIndexTest, PlantedMatchIsFoundAmongFewCandidates) {
  spec_.codes_per_table = GetParam() == HashFamilyKind::kDwta ? 4 : 8;
  spec_.num_tables = 24;
  TestRows rows = TestRows::Random(5000, kIndexDim, 26);
  constexpr int64_t kQueries = 60;
  const std::vector<float> hidden = RandomHidden(kQueries, kIndexDim, 0.4, 27);
  CounterRng rng(28);
  std::vector<float> mean(kIndexDim, 0.0f);
  for (const auto& row : rows.weights) {
    for (int64_t i = 0; i < kIndexDim; ++i) mean[i] += row[i] / 5000.0f;
  }
  for (int64_t q = 0; q < kQueries; ++q) {
    for (int64_t i = 0; i < kIndexDim; ++i) {
      const float noise = 0.05f * rng.NextGaussian();
      rows.weights[q * 80][i] = mean[i] + 0.4f * hidden[q * kIndexDim + i] + noise;
    }
  }
  const auto index = Built(rows);
  std::vector<uint32_t> fingerprints(kQueries * 24);
  index->family().HashQueries(hidden, kQueries, Parallelism{}, absl::MakeSpan(fingerprints));
  int64_t found = 0;
  for (int64_t q = 0; q < kQueries; ++q) {
    const std::vector<uint32_t> query(fingerprints.begin() + q * 24,
                                      fingerprints.begin() + (q + 1) * 24);
    const Selection selection = Select(*index, query, {}, 50);
    EXPECT_LE(selection.active.size(), 50u);
    found += selection.FoundByHashing(LocalRow(static_cast<uint32_t>(q * 80)));
  }
  EXPECT_GE(found, kQueries * 9 / 10);  // 50 of 5,000 at random would find 1 in 100
}

using HashIndexDeathTest = HashIndexTest;

TEST_P(HashIndexDeathTest, RowsBeyondTheIndexAreAProgrammingError) {
  const TestRows rows = TestRows::Random(10, kIndexDim, 29);
  const auto index = Built(rows);
  const auto query = Queries(*index, 1, 30)[0];
  EXPECT_DEATH(Select(*index, query, Rows({3, 10}), 5), "label row 10, but the index has 10 rows");
  EXPECT_DEATH(index->Build(rows, Rows({12}), Refresh::kNo, Parallelism{}), "dirty row 12");
}

std::string FamilyName(const ::testing::TestParamInfo<HashFamilyKind>& param) {
  return param.param == HashFamilyKind::kDwta ? "Dwta" : "SimHash";
}

INSTANTIATE_TEST_SUITE_P(Families, HashIndexTest,
                         ::testing::Values(HashFamilyKind::kSimHash, HashFamilyKind::kDwta),
                         FamilyName);
INSTANTIATE_TEST_SUITE_P(Families, HashIndexDeathTest,
                         ::testing::Values(HashFamilyKind::kSimHash, HashFamilyKind::kDwta),
                         FamilyName);

}  // namespace
}  // namespace dslide

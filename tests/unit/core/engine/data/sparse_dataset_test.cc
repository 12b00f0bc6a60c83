#include "core/engine/data/sparse_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "tests/reference/data_reference.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SparseDatasetOptions Threads(int threads) {
  SparseDatasetOptions options;
  options.parallelism.threads = threads;
  options.count_document_frequency = true;
  return options;
}

absl::StatusOr<std::unique_ptr<SparseDataset>> Parse(const std::string& text, int threads = 1) {
  return SparseDataset::FromText("data.txt", text, Threads(threads));
}

SparseBatch ReadAll(const Dataset& data) {
  std::vector<int64_t> points(static_cast<size_t>(data.num_points()));
  std::iota(points.begin(), points.end(), 0);
  SparseBatch batch;
  EXPECT_TRUE(data.ReadSamples(points, &batch).ok());
  return batch;
}

std::vector<uint32_t> Ids(absl::Span<const RowId> rows) {
  std::vector<uint32_t> ids;
  for (const RowId row : rows) ids.push_back(row.value());
  return ids;
}

TEST(SparseDatasetTest, ReadsEveryKindOfLine) {
  const auto data = Parse("5 10 8\n1,3 2:0.5 7:1\n 4:2\n5\n \n2,0\t9:1  3:2 \n");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->num_points(), 5);
  EXPECT_EQ((*data)->num_features(), 10);
  EXPECT_EQ((*data)->num_labels(), 8);
  const SparseBatch batch = ReadAll(**data);
  EXPECT_THAT(Ids(batch.LabelsOf(0)), ElementsAre(1, 3));
  EXPECT_THAT(Ids(batch.FeaturesOf(0)), ElementsAre(2, 7));
  EXPECT_THAT(batch.ValuesOf(0), ElementsAre(0.5f, 1.0f));
  EXPECT_THAT(batch.LabelsOf(1), IsEmpty());  // begins with a blank
  EXPECT_THAT(Ids(batch.FeaturesOf(1)), ElementsAre(4));
  EXPECT_THAT(Ids(batch.LabelsOf(2)), ElementsAre(5));  // labels and no features
  EXPECT_THAT(batch.FeaturesOf(2), IsEmpty());
  EXPECT_THAT(batch.LabelsOf(3), IsEmpty());               // neither
  EXPECT_THAT(Ids(batch.LabelsOf(4)), ElementsAre(0, 2));  // sorted by the reader
  EXPECT_THAT(Ids(batch.FeaturesOf(4)), ElementsAre(3, 9));
  EXPECT_THAT(batch.ValuesOf(4), ElementsAre(2.0f, 1.0f));
  EXPECT_THAT((*data)->DocumentFrequency(), ElementsAre(0, 0, 1, 1, 1, 0, 0, 1, 0, 1));
}

TEST(SparseDatasetTest, ReadsPointsInTheGivenOrderAndMoreThanOnce) {
  const auto data = Parse("3 4 4\n0 0:1\n1 1:1\n2 2:1\n");
  ASSERT_TRUE(data.ok()) << data.status();
  SparseBatch batch;
  ASSERT_TRUE((*data)->ReadSamples({2, 0, 2}, &batch).ok());
  EXPECT_EQ(batch.samples(), 3);
  EXPECT_THAT(Ids(batch.labels), ElementsAre(2, 0, 2));
  ASSERT_TRUE((*data)->ReadSamples({}, &batch).ok());
  EXPECT_EQ(batch.samples(), 0);
}

TEST(SparseDatasetTest, APointOutsideIsRefusedByName) {
  const auto data = Parse("1 4 4\n0 0:1\n");
  SparseBatch batch;
  const absl::Status status = (*data)->ReadSamples({0, 1}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(), "point 1 outside data.txt [0, 1)");
  EXPECT_EQ(batch.samples(), 0);
  EXPECT_FALSE((*data)->ReadSamples({-1}, &batch).ok());
}

TEST(SparseDatasetTest, ToleratesCrLfAndBlankLinesAtTheEnd) {
  const std::string expected = "2 4 4\n0 0:1\n1 1:1\n";
  const auto plain = Parse(expected);
  for (const char* text :
       {"2 4 4\r\n0 0:1\r\n1 1:1\r\n", "2 4 4\n0 0:1\n1 1:1", "2 4 4\n0 0:1\n1 1:1\n\n\n",
        "2 4 4\r\n0 0:1\r\n1 1:1\r\n\r\n\r\n", "2 4 4\n0 0:1\n1 1:1\n \n\t\n\n \n"}) {
    const auto data = Parse(text);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(ReadAll(**data).labels, ReadAll(**plain).labels);
    EXPECT_EQ(ReadAll(**data).features, ReadAll(**plain).features);
  }
}

struct BadText {
  const char* text;
  const char* message;
};

class MalformedTest : public testing::TestWithParam<BadText> {};

TEST_P(MalformedTest, NamesThePlaceAndWhatWasExpected) {
  for (const int threads : {1, 3}) {
    const auto data = Parse(GetParam().text, threads);
    ASSERT_FALSE(data.ok());
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(data.status().message(), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Header, MalformedTest,
    testing::Values(
        BadText{"",
                "data.txt:1:1: found the end of the line, expected the number of points in "
                "[1, 281474976710656] (the first line is: points features labels)"},
        BadText{"5 x 3\n",
                "data.txt:1:3: found \"x\", expected the number of features in "
                "[1, 2147483648] (the first line is: points features labels)"},
        BadText{"5 4\n",
                "data.txt:1:4: found the end of the line, expected the number of labels "
                "in [1, 2147483648] (the first line is: points features labels)"},
        BadText{"5 0 3\n",
                "data.txt:1:3: found \"0\", expected the number of features in "
                "[1, 2147483648] (the first line is: points features labels)"},
        BadText{"1 4 2147483649\n",
                "data.txt:1:5: found \"2147483649\", expected the number of labels in "
                "[1, 2147483648] (the first line is: points features labels)"},
        BadText{"1 2 3 4\n0 0:1\n",
                "data.txt:1:7: found \"4\", expected nothing after the number of labels"},
        BadText{"-1 2 3\n",
                "data.txt:1:1: found \"-1\", expected the number of points in "
                "[1, 281474976710656] (the first line is: points features labels)"}));

INSTANTIATE_TEST_SUITE_P(
    Labels, MalformedTest,
    testing::Values(
        BadText{"1 4 3\n3 0:1\n", "data.txt:2:1: found \"3\", expected a label id in [0, 3)"},
        BadText{"2 4 3\n0 0:1\n1,,2 0:1\n",
                "data.txt:3:3: found nothing, expected a label id in [0, 3)"},
        BadText{"1 4 3\n1, 0:1\n", "data.txt:2:3: found nothing, expected a label id in [0, 3)"},
        BadText{"1 4 3\n1,-2 0:1\n", "data.txt:2:3: found \"-2\", expected a label id in [0, 3)"},
        BadText{"1 4 3\nnews 0:1\n", "data.txt:2:1: found \"news\", expected a label id in [0, 3)"},
        BadText{"1 4 3\n0:1 2:1\n",
                "data.txt:2:1: found \"0:1\", expected a label id in [0, 3) (the line of a point "
                "without labels begins with a blank)"},
        BadText{"1 4 3\n99999999999999999999 0:1\n",
                "data.txt:2:1: found \"99999999999999999999\", expected a label id in [0, 3)"},
        BadText{"1 4 3\n1,2,1 0:1\n",
                "data.txt:2:5: found label 1 for the second time, expected "
                "each label at most once in a line"},
        BadText{"1 4 3\n\x01\xff 0:1\n",
                "data.txt:2:1: found \"\\x01\\xff\", expected a label id in [0, 3)"}));

INSTANTIATE_TEST_SUITE_P(
    Features, MalformedTest,
    testing::Values(
        BadText{"1 4 3\n0 1:1 4:1\n",
                "data.txt:2:7: found \"4:1\", expected feature:value with a "
                "feature id in [0, 4)"},
        BadText{"1 4 3\n0 1\n",
                "data.txt:2:3: found \"1\", expected feature:value with a feature "
                "id in [0, 4)"},
        BadText{"1 4 3\n0 x:1\n",
                "data.txt:2:3: found \"x:1\", expected feature:value with a "
                "feature id in [0, 4)"},
        BadText{"1 4 3\n0 :1\n",
                "data.txt:2:3: found \":1\", expected feature:value with a "
                "feature id in [0, 4)"},
        BadText{"1 4 3\n0 1:\n",
                "data.txt:2:5: found nothing, expected a finite decimal number "
                "as the value of feature 1"},
        BadText{"1 4 3\n0 1:nan\n",
                "data.txt:2:5: found \"nan\", expected a finite decimal number "
                "as the value of feature 1"},
        BadText{"1 4 3\n0 1:-inf\n",
                "data.txt:2:5: found \"-inf\", expected a finite decimal "
                "number as the value of feature 1"},
        BadText{"1 4 3\n0 1:1e39\n",
                "data.txt:2:5: found \"1e39\", expected a finite decimal "
                "number as the value of feature 1"},
        BadText{"1 4 3\n0 1:1,5\n",
                "data.txt:2:5: found \"1,5\", expected a finite decimal number "
                "as the value of feature 1"},
        BadText{"1 4 3\n0 1:1 2:1 1:1\n",
                "data.txt:2:11: found feature 1 for the second time, "
                "expected each feature at most once in a line"},
        BadText{"1 4 3\n 2:1 1:1 01:3\n",
                "data.txt:2:10: found feature 1 for the second time, "
                "expected each feature at most once in a line"},
        BadText{"1 4 3\n0 1:1\r2:1\n",
                "data.txt:2:5: found \"1\\r2:1\", expected a finite decimal "
                "number as the value of feature 1"},
        BadText{"1 4 3\n0 1:1111111111111111111111111111111111111111111111111x\n",
                "data.txt:2:5: found \"1111111111111111111111111111111111111111...\", expected a "
                "finite decimal number as the value of feature 1"}));

INSTANTIATE_TEST_SUITE_P(
    Lines, MalformedTest,
    testing::Values(
        BadText{"2 4 3\n\n0 1:1\n", "data.txt:2:1: found an empty line, expected a point"},
        BadText{"3 4 3\n0 1:1\n0 1:1\n",
                "data.txt:4:1: found the end of the file, expected point "
                "3 of 3 that the header says"},
        BadText{"1 4 3",
                "data.txt:2:1: found the end of the file, expected point 1 of 1 that the "
                "header says"},
        BadText{"1 4 3\n0 1:1\n\n0 1:1\n",
                "data.txt:4:1: found \"0 1:1\", expected the end of "
                "the file (the header says 1 points)"},
        BadText{"1 4 3\n0 1:1\n 3:1\n",
                "data.txt:3:1: found \" 3:1\", expected the end of the "
                "file (the header says 1 points)"},
        // The first error in file order, not the first kind.
        BadText{"1 4 3\n0 1:1\nbad\n",
                "data.txt:3:1: found \"bad\", expected the end of the file "
                "(the header says 1 points)"},
        BadText{"3 4 3\n0 1:1\n\nbad\n0 1:1\n",
                "data.txt:3:1: found an empty line, expected a point"}));

// A random valid file; when `broken`, some bytes of it are changed.
std::string RandomFile(uint64_t seed, bool broken) {
  CounterRng rng(seed);
  const int64_t points = 1 + static_cast<int64_t>(rng.NextBelow(30));
  const int64_t features = 1 + static_cast<int64_t>(rng.NextBelow(40));
  const int64_t labels = 1 + static_cast<int64_t>(rng.NextBelow(20));
  const char* line_end = rng.NextBelow(4) == 0 ? "\r\n" : "\n";
  const auto ids = [&](int64_t bound) {
    std::vector<int64_t> chosen;
    for (int64_t id = 0; id < bound; ++id) {
      if (rng.NextBelow(4) == 0) chosen.push_back(id);
    }
    if (rng.NextBelow(3) == 0) std::reverse(chosen.begin(), chosen.end());
    return chosen;
  };
  std::string text = absl::StrCat(points, " ", features, " ", labels, line_end);
  for (int64_t i = 0; i < points; ++i) {
    std::string line;
    for (const int64_t id : ids(labels)) absl::StrAppend(&line, line.empty() ? "" : ",", id);
    if (line.empty()) line = " ";
    for (const int64_t id : ids(features)) {
      const int64_t thousandths = static_cast<int64_t>(rng.NextBelow(5000));
      absl::StrAppend(&line, rng.NextBelow(9) == 0 ? "\t " : " ", id, ":");
      absl::StrAppend(&line, rng.NextBelow(2) == 0 ? thousandths : thousandths / 1000);
      if (rng.NextBelow(2) == 0) absl::StrAppend(&line, ".", thousandths % 1000);
      if (rng.NextBelow(9) == 0) absl::StrAppend(&line, "e-", rng.NextBelow(5));
    }
    absl::StrAppend(&text, line, line_end);
  }
  static constexpr char kBytes[] = " \n\r\t:,.-+e0123456789xX";
  for (uint64_t i = 0; broken && i < 1 + rng.NextBelow(3); ++i) {
    const char c = kBytes[rng.NextBelow(sizeof(kBytes) - 1)];
    const size_t at = rng.NextBelow(text.size());
    switch (rng.NextBelow(3)) {
      case 0:
        text[at] = c;
        break;
      case 1:
        text.insert(at, 1, c);
        break;
      default:
        text.erase(at, 1);
    }
  }
  return text;
}

void ExpectEqualsReference(const std::string& text, int threads) {
  const std::optional<reference::SparseFile> slow = reference::ParseSparseFile(text);
  const auto fast = Parse(text, threads);
  ASSERT_EQ(fast.ok(), slow.has_value()) << fast.status() << "\n" << text;
  if (!slow) return;
  const SparseBatch batch = ReadAll(**fast);
  ASSERT_EQ(batch.samples(), slow->points);
  std::vector<int64_t> frequency(static_cast<size_t>(slow->features), 0);
  for (int64_t s = 0; s < batch.samples(); ++s) {
    const reference::SparsePoint& point = slow->samples[static_cast<size_t>(s)];
    ASSERT_EQ(Ids(batch.LabelsOf(s)), point.labels);
    std::vector<uint32_t> features;
    std::vector<float> values;
    for (const auto& [id, value] : point.features) {
      features.push_back(id);
      values.push_back(value);
      ++frequency[id];
    }
    ASSERT_EQ(Ids(batch.FeaturesOf(s)), features);
    ASSERT_THAT(batch.ValuesOf(s), testing::ElementsAreArray(values));
  }
  EXPECT_THAT((*fast)->DocumentFrequency(), testing::ElementsAreArray(frequency));
}

TEST(SparseDatasetTest, EqualsTheSlowReaderOnRandomFiles) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    ExpectEqualsReference(RandomFile(seed, false), 1 + static_cast<int>(seed % 3));
  }
}

TEST(SparseDatasetTest, AgreesWithTheSlowReaderOnWhatIsMalformed) {
  int refused = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const std::string text = RandomFile(seed, true);
    ExpectEqualsReference(text, 1);
    refused += !reference::ParseSparseFile(text).has_value();
  }
  EXPECT_GT(refused, 1000);  // the test must meet both kinds
  EXPECT_LT(refused, 3900);
}

// Several MB, so that many chunks are scanned at once; some lines are longer than a chunk.
std::string LargeFile() {
  CounterRng rng(5);
  const int64_t points = 20000;
  std::string text = absl::StrCat(points, " 400000 1000\n");
  for (int64_t i = 0; i < points; ++i) {
    absl::StrAppend(&text, rng.NextBelow(1000));
    const int64_t count = i % 7000 == 100 ? 200000 : static_cast<int64_t>(rng.NextBelow(20));
    for (int64_t f = 0; f < count; ++f) absl::StrAppend(&text, " ", 2 * f, ":", f % 10);
    text += '\n';
  }
  return text;
}

TEST(SparseDatasetTest, TheNumberOfThreadsChangesNothing) {
  const std::string text = LargeFile();
  const auto one = Parse(text, 1);
  ASSERT_TRUE(one.ok()) << one.status();
  const auto many = Parse(text, 5);
  ASSERT_TRUE(many.ok()) << many.status();
  const SparseBatch a = ReadAll(**one);
  const SparseBatch b = ReadAll(**many);
  EXPECT_EQ(a.features, b.features);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.feature_offsets, b.feature_offsets);
  EXPECT_TRUE((*one)->DocumentFrequency() == (*many)->DocumentFrequency());
  EXPECT_EQ((*one)->Fingerprint(), (*many)->Fingerprint());
}

TEST(SparseDatasetTest, TheFirstErrorInFileOrderWinsWhateverTheThreads) {
  std::string text = LargeFile();
  const size_t late = text.rfind('\n', text.size() - 100);
  text[late + 1] = 'x';
  const size_t early = text.find('\n', text.size() / 3);
  text[early + 1] = 'y';
  const std::string message(Parse(text, 1).status().message());
  EXPECT_THAT(message, testing::HasSubstr("found \"y"));
  EXPECT_EQ(Parse(text, 5).status().message(), message);
}

TEST(SparseDatasetTest, FingerprintsTellDataApart) {
  const std::string text = "2 4 4\n0 0:1\n1 1:1\n";
  const uint64_t fingerprint = (*Parse(text))->Fingerprint();
  EXPECT_EQ((*Parse(text))->Fingerprint(), fingerprint);
  for (const char* other : {"2 5 4\n0 0:1\n1 1:1\n", "2 4 5\n0 0:1\n1 1:1\n",
                            "2 4 4\n0 0:1\n1 1:2\n", "2 4 4\n1 1:1\n0 0:1\n"}) {
    EXPECT_NE((*Parse(other))->Fingerprint(), fingerprint) << other;
  }
}

TEST(SparseDatasetTest, OpensPlainAndCompressedFilesAlike) {
  TempDir dir;
  const std::string text = RandomFile(3, false);
  WriteFile(dir.File("a.txt"), text);
  WriteCompressed(dir.File("a.zst"), "zstd", text);
  const auto plain = SparseDataset::Open(dir.File("a.txt"), Threads(2));
  const auto packed = SparseDataset::Open(dir.File("a.zst"), Threads(2));
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_EQ((*plain)->Fingerprint(), (*packed)->Fingerprint());
  EXPECT_EQ(ReadAll(**plain).values, ReadAll(**packed).values);
}

TEST(SparseDatasetTest, ReportsAFileThatChangedWhileItWasRead) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "2 4 4\n0 0:1\n1 1:1\n");
  const auto data = SparseDataset::Open(dir.File("a.txt"), Threads(1));
  ASSERT_TRUE(data.ok());
  std::fstream file(dir.File("a.txt"), std::ios::in | std::ios::out);
  file.seekp(12);
  file << "x";
  file.close();
  SparseBatch batch;
  const absl::Status status = (*data)->ReadSamples({0, 1}, &batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("a.txt:3:1: found \"x\""));
  EXPECT_EQ(batch.samples(), 0);
}

TEST(SparseDatasetTest, FindsNamesBesideTheFileWhenTheyFit) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "1 2 3\n0 0:1\n");
  WriteFile(dir.File("features.txt"), "apple\r\npear\n");
  WriteCompressed(dir.File("labels.txt.xz"), "xz", "x\ny\nz\n");
  const auto data = SparseDataset::Open(dir.File("a.txt"), Threads(1));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->FeatureName(0), "apple");
  EXPECT_EQ((*data)->FeatureName(1), "pear");
  EXPECT_EQ((*data)->FeatureName(2), "");
  EXPECT_EQ((*data)->FeatureName(-1), "");
  EXPECT_EQ((*data)->LabelName(2), "z");

  WriteFile(dir.File("features.txt"), "names\nof\nother\ndata\n");
  const auto other = SparseDataset::Open(dir.File("a.txt"), Threads(1));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->FeatureName(0), "");
  EXPECT_THAT((*other)->Notes(), testing::ElementsAre(testing::EndsWith(
                                     "features.txt has 4 lines, not 2: its names are not used")));

  SparseDatasetOptions named = Threads(1);
  named.feature_names = dir.File("features.txt");
  const auto refused = SparseDataset::Open(dir.File("a.txt"), named);
  EXPECT_EQ(refused.status().message(), absl::StrCat(dir.File("features.txt"), " has 4 lines; ",
                                                     dir.File("a.txt"), " needs 2 names"));
}

TEST(SparseDatasetTest, TestAndTrainingDataMustHaveOneShape) {
  const auto train = Parse("1 4 3\n0 1:1\n");
  const auto same = Parse("2 4 3\n0 1:1\n0 1:1\n");
  const auto wider = Parse("1 4 5\n0 1:1\n");
  EXPECT_TRUE(CheckSameShape(**train, **same).ok());
  EXPECT_EQ(CheckSameShape(**train, **wider).message(),
            "data.txt has 5 labels, data.txt has 3; they are not parts of one data set");
}

}  // namespace
}  // namespace dslide

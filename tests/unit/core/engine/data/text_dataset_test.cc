#include "core/engine/data/text_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "tests/reference/data_reference.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TextDatasetOptions Options(int64_t window, int64_t min_count, int64_t max_vocabulary,
                           int threads = 1) {
  TextDatasetOptions options;
  options.window = window;
  options.min_count = min_count;
  options.max_vocabulary = max_vocabulary;
  options.parallelism.threads = threads;
  return options;
}

std::vector<std::string> LabelNames(const TextDataset& data, int64_t point) {
  SparseBatch batch;
  EXPECT_TRUE(data.ReadSamples({point}, &batch).ok());
  std::vector<std::string> names;
  for (const RowId label : batch.labels) names.emplace_back(data.LabelName(label.value()));
  return names;
}

TEST(TextDatasetTest, MakesNeighboursWithinTheLine) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "the cat sat on the mat\n\nthe dog\n alone\n");
  const auto data = TextDataset::Open(dir.File("a.txt"), Options(2, 1, 100));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->num_points(), 9);
  EXPECT_EQ((*data)->total_words(), 9);
  // By falling count, then alphabetically.
  std::vector<std::string> vocabulary;
  for (int64_t i = 0; i < (*data)->num_features(); ++i) {
    vocabulary.emplace_back((*data)->FeatureName(i));
  }
  EXPECT_THAT(vocabulary, ElementsAre("the", "alone", "cat", "dog", "mat", "on", "sat"));
  EXPECT_THAT((*data)->DocumentFrequency(), ElementsAre(3, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(LabelNames(**data, 0), ElementsAre("cat", "sat"));
  EXPECT_THAT(LabelNames(**data, 2), ElementsAre("the", "cat", "on"));  // "the" twice
  EXPECT_THAT(LabelNames(**data, 5), ElementsAre("the", "on"));
  EXPECT_THAT(LabelNames(**data, 6), ElementsAre("dog"));
  EXPECT_THAT(LabelNames(**data, 8), testing::IsEmpty());
  SparseBatch batch;
  ASSERT_TRUE((*data)->ReadSamples({8, 1}, &batch).ok());
  EXPECT_THAT(batch.features, ElementsAre(RowId(1), RowId(2)));
  EXPECT_THAT(batch.values, ElementsAre(1.0f, 1.0f));
}

TEST(TextDatasetTest, DropsRareWordsBeforeWindowsAreFormed) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "a rare b odd a b\na b\n");
  const auto by_count = TextDataset::Open(dir.File("a.txt"), Options(1, 2, 100));
  ASSERT_TRUE(by_count.ok()) << by_count.status();
  EXPECT_EQ((*by_count)->num_points(), 6);
  EXPECT_EQ((*by_count)->total_words(), 8);
  EXPECT_THAT(LabelNames(**by_count, 0), ElementsAre("b"));
  const auto by_size = TextDataset::Open(dir.File("a.txt"), Options(1, 1, 1));
  ASSERT_TRUE(by_size.ok()) << by_size.status();
  EXPECT_EQ((*by_size)->num_features(), 1);
  EXPECT_EQ((*by_size)->FeatureName(0), "a");
}

// Lines of random lengths; with `bytes` over some MB, words lie across the scanner's chunks.
std::string RandomText(uint64_t seed, size_t bytes) {
  CounterRng rng(seed);
  std::string text;
  while (text.size() < bytes) {
    const uint64_t rank = rng.NextBelow(1 + rng.NextBelow(60));
    absl::StrAppend(&text, "w", rank * rank);
    static constexpr const char* kGaps[] = {" ", " ", " ", "  ", "\t", "\n", "\r\n", "\n\n", " \f"};
    text += kGaps[rng.NextBelow(9)];
  }
  return text;
}

void ExpectEqualsTextReference(const std::string& text, const TextDatasetOptions& options) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), text);
  const reference::WordTask slow =
      reference::MakeWordTask(text, options.window, options.min_count, options.max_vocabulary);
  const auto data = TextDataset::Open(dir.File("a.txt"), options);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ((*data)->num_points(), static_cast<int64_t>(slow.samples.size()));
  ASSERT_EQ((*data)->num_features(), static_cast<int64_t>(slow.vocabulary.size()));
  for (int64_t i = 0; i < (*data)->num_features(); ++i) {
    ASSERT_EQ((*data)->FeatureName(i), slow.vocabulary[static_cast<size_t>(i)]);
  }
  std::vector<int64_t> points(slow.samples.size());
  std::iota(points.begin(), points.end(), 0);
  SparseBatch batch;
  ASSERT_TRUE((*data)->ReadSamples(points, &batch).ok());
  for (int64_t s = 0; s < batch.samples(); ++s) {
    const reference::WordSample& sample = slow.samples[static_cast<size_t>(s)];
    ASSERT_EQ((*data)->FeatureName(batch.FeaturesOf(s)[0].value()), sample.word) << s;
    std::vector<std::string> neighbours;
    for (const RowId label : batch.LabelsOf(s)) {
      neighbours.emplace_back((*data)->LabelName(label.value()));
    }
    ASSERT_EQ(neighbours, sample.neighbours) << "sample " << s;
  }
}

TEST(TextDatasetTest, EqualsTheSlowReaderOnRandomTexts) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    ExpectEqualsTextReference(RandomText(seed, 2000),
                              Options(1 + static_cast<int64_t>(seed % 4), 3, 40, 2));
  }
}

TEST(TextDatasetTest, EqualsTheSlowReaderOverManyChunks) {
  ExpectEqualsTextReference(RandomText(7, 3 << 19), Options(2, 5, 1000, 3));
  // A line end that only later chunks' words follow, and a word longer than a chunk.
  const std::string gap =
      "a b\n" + std::string(3 << 20, ' ') + "a b " + std::string(2 << 20, 'x') + " a\nb";
  ExpectEqualsTextReference(gap, Options(2, 1, 1000, 3));
  ExpectEqualsTextReference(gap, Options(2, 2, 1000, 3));
}

TEST(TextDatasetTest, TheNumberOfThreadsChangesNothing) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), RandomText(1, 5 << 19));
  const auto one = TextDataset::Open(dir.File("a.txt"), Options(2, 2, 30, 1));
  const auto many = TextDataset::Open(dir.File("a.txt"), Options(2, 2, 30, 4));
  ASSERT_TRUE(one.ok() && many.ok());
  EXPECT_EQ((*one)->Fingerprint(), (*many)->Fingerprint());
  EXPECT_EQ((*one)->num_points(), (*many)->num_points());
  EXPECT_TRUE((*one)->DocumentFrequency() == (*many)->DocumentFrequency());
}

TEST(TextDatasetTest, ATestTextIsReadWithTheTrainingVocabulary) {
  TempDir dir;
  WriteFile(dir.File("train.txt"), "a b a b c\n");
  WriteCompressed(dir.File("test.txt.xz"), "xz", "c new b\n");
  const auto train = TextDataset::Open(dir.File("train.txt"), Options(2, 1, 100));
  ASSERT_TRUE(train.ok());
  TextDatasetOptions options = Options(2, 1, 100);
  options.vocabulary = (*train)->vocabulary();
  const auto test = TextDataset::Open(dir.File("test.txt.xz"), options);
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_EQ((*test)->num_features(), 3);
  EXPECT_EQ((*test)->num_points(), 2);
  EXPECT_THAT(LabelNames(**test, 0), ElementsAre("b"));
  EXPECT_THAT((*test)->DocumentFrequency(), ElementsAre(0, 1, 1));
}

TEST(TextDatasetTest, RefusesWhatIsNotText) {
  TempDir dir;
  WriteFile(dir.File("a.bin"), std::string("word\nab\0c", 9));
  EXPECT_EQ(TextDataset::Open(dir.File("a.bin"), Options(2, 1, 9)).status().message(),
            absl::StrCat(dir.File("a.bin"),
                         ":2:3: found a NUL byte, expected plain text: words "
                         "separated by white space"));
  WriteFile(dir.File("empty"), "");
  EXPECT_EQ(TextDataset::Open(dir.File("empty"), Options(2, 1, 9)).status().message(),
            absl::StrCat(dir.File("empty"),
                         " has 0 words, none of them at least 1 times (lower min_count)"));
  WriteFile(dir.File("rare"), "a b c");
  const absl::Status rare = TextDataset::Open(dir.File("rare"), Options(2, 5, 9)).status();
  EXPECT_EQ(rare.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rare.message()), HasSubstr("3 words"));
  EXPECT_EQ(TextDataset::Open(dir.File("none"), Options(2, 5, 9)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(TextDatasetTest, RefusesOptionsAndPointsOutOfRange) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "a b");
  EXPECT_EQ(TextDataset::Open(dir.File("a.txt"), Options(0, 1, 9)).status().message(),
            "window 0 is outside [1, 1000]");
  EXPECT_FALSE(TextDataset::Open(dir.File("a.txt"), Options(2, 0, 9)).ok());
  EXPECT_FALSE(TextDataset::Open(dir.File("a.txt"), Options(2, 1, 0)).ok());
  const auto data = TextDataset::Open(dir.File("a.txt"), Options(2, 1, 9));
  SparseBatch batch;
  EXPECT_EQ((*data)->ReadSamples({0, 2}, &batch).message(),
            absl::StrCat("point 2 outside ", dir.File("a.txt"), " [0, 2)"));
  EXPECT_EQ(batch.samples(), 0);
}

TEST(TextDatasetTest, FingerprintsTellTasksApart) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "a b c a b a");
  const uint64_t base = (*TextDataset::Open(dir.File("a.txt"), Options(2, 1, 9)))->Fingerprint();
  EXPECT_NE((*TextDataset::Open(dir.File("a.txt"), Options(3, 1, 9)))->Fingerprint(), base);
  EXPECT_NE((*TextDataset::Open(dir.File("a.txt"), Options(2, 2, 9)))->Fingerprint(), base);
}

TEST(VocabularyTest, ReadsBackWhatWasSaved) {
  TempDir dir;
  const Vocabulary vocabulary({{"the", 5}, {"Übermut", 2}, {"z", 2}});
  EXPECT_EQ(vocabulary.Find("z"), 2);
  EXPECT_EQ(vocabulary.Find("y"), -1);
  ASSERT_TRUE(vocabulary.Save(dir.File("v.tsv")).ok());
  const auto loaded = Vocabulary::Load(dir.File("v.tsv"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ((*loaded)->size(), 3);
  EXPECT_EQ((*loaded)->word(1).text, "Übermut");
  EXPECT_EQ((*loaded)->word(1).count, 2);
  EXPECT_EQ((*loaded)->Find("the"), 0);
}

TEST(VocabularyTest, NamesTheBadPlace) {
  TempDir dir;
  const std::string path = dir.File("v.tsv");
  const auto message = [&](const std::string& text) {
    WriteFile(path, text);
    return std::string(Vocabulary::Load(path).status().message());
  };
  EXPECT_EQ(
      message("5\tthe\nx\tz\n"),
      path + ":2:1: found \"x\\tz\", expected count<TAB>word with a whole number as the count");
  EXPECT_EQ(message("5\tthe\n2\tthe\n"),
            path + ":2:3: found \"the\", expected a word that is not yet on line 1");
  EXPECT_EQ(message("5\ttwo words\n"),
            path + ":1:3: found \"two words\", expected a word without white space");
  EXPECT_EQ(message("5\t\n"), path + ":1:3: found \"\", expected a word without white space");
  EXPECT_EQ(message("5\n"), path + ":1:2: found \"\", expected a word without white space");
  EXPECT_EQ(message(""),
            path + ":1:1: found the end of the file, expected at least one line count<TAB>word");
}

}  // namespace
}  // namespace dslide

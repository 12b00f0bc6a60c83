#include "core/engine/data/import/importer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/engine/data/sparse_dataset.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kCsv[] =
    "id,title,tags\n"
    "1,\"Red apples, red pears\",fruit;red\n"
    "2,Green APPLES,fruit ;  green; fruit\n"
    "3,nothing known,\n"
    "4,Blue sky,\"blue; big \nsky\"\n";

class ImporterTest : public ::testing::Test {
 protected:
  ImporterTest() {
    options_.files = {dir_.File("in")};
    options_.output_dir = dir_.File("set");
    options_.source.text_columns = {"title"};
    options_.source.label_columns = {"tags"};
    options_.source.label_separator = ";";
  }

  absl::StatusOr<ImportReport> Import(const std::string& text, ImportFormat format) {
    options_.source.format = format;
    options_.overwrite = true;
    WriteFile(dir_.File("in"), text);
    return ImportData(options_);
  }
  std::string Out(const std::string& name) const { return ReadFile(dir_.File("set/" + name)); }
  // What importing `text` says.
  std::string Error(const std::string& text, ImportFormat format) {
    return std::string(Import(text, format).status().message());
  }

  const TempDir dir_;
  ImportOptions options_;
};

TEST_F(ImporterTest, CsvBecomesASet) {
  const auto report = Import(kCsv, ImportFormat::kCsv);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rows, 4);
  EXPECT_EQ(report->train.points, 3);
  EXPECT_EQ(report->train.without_labels, 1);
  EXPECT_EQ(Out("features.txt"), "apples\nblue\ngreen\npears\nred\nsky\n");
  EXPECT_EQ(Out("labels.txt"), "fruit\nbig sky\nblue\ngreen\nred\n");
  EXPECT_EQ(Out("train.txt"), "3 6 5\n0,4 0:1 3:1 4:2\n0,3 0:1 2:1\n1,2 1:1 5:1\n");
  EXPECT_THAT(Out("tokenizer.json"), HasSubstr("\"words\""));
  EXPECT_FALSE(std::filesystem::exists(dir_.File("set/test.txt")));
  const auto data = SparseDataset::Open(dir_.File("set/train.txt"), {});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->FeatureName(4), "red");
}

TEST_F(ImporterTest, EveryFormBecomesTheSameSet) {
  ASSERT_TRUE(Import(kCsv, ImportFormat::kCsv).ok());
  const std::string train = Out("train.txt");
  const std::string labels = Out("labels.txt");
  for (const auto& [text, format] : std::vector<std::pair<std::string, ImportFormat>>{
           {absl::StrCat("\xef\xbb\xbf", kCsv), ImportFormat::kCsv},
           {R"({"title": "Red apples, red pears", "tags": ["fruit", "red"], "x": {}})"
            "\n\n"
            R"({"tags": "green;fruit", "title": ["green", "apples"]})"
            "\r\n"
            R"({"tags": null, "title": "nothing known"})"
            "\n"
            R"({"tags": ["blue", "big  sky"], "title": "Blue sky"})",
            ImportFormat::kJsonLines}}) {
    const auto report = Import(text, format);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(Out("train.txt"), train);
    EXPECT_EQ(Out("labels.txt"), labels);
  }
  ASSERT_TRUE(Import("__label__fruit __label__red Red apples, red pears\n"
                     "Green __label__fruit APPLES __label__green\nno label\n"
                     "__label__blue __label__big-sky Blue sky\n",
                     ImportFormat::kFastText)
                  .ok());
  EXPECT_EQ(Out("train.txt"), train);
}

TEST_F(ImporterTest, SvmlightKeepsItsNumbersAsNames) {
  const auto report = Import("1,3 5:0.2 7:-1e3 # note 9:9\n 7:1\n+1 # nothing\n3 5:1\n0:2\n",
                             ImportFormat::kSvmlight);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->train.without_labels, 2);
  EXPECT_EQ(report->train.without_features, 1);
  EXPECT_EQ(Out("features.txt"), "5\n7\n");
  EXPECT_EQ(Out("labels.txt"), "3\n+1\n1\n");
  EXPECT_EQ(Out("train.txt"), "2 2 3\n0,2 0:0.2 1:-1000\n0 0:1\n");
  EXPECT_FALSE(std::filesystem::exists(dir_.File("set/tokenizer.json")));
}

TEST_F(ImporterTest, TheTestPartHasTheNamesOfTraining) {
  options_.test_files = {dir_.File("held-out")};
  WriteFile(dir_.File("held-out"),
            "tags,title\nred;violet,red apples unknown\nred,unheard\nviolet,red\n,blue\n");
  const auto report = Import(kCsv, ImportFormat::kCsv);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->test.points, 2);
  EXPECT_EQ(report->test.without_labels, 2);
  EXPECT_EQ(Out("test.txt"), "2 6 5\n4 0:1 4:1\n4\n");
  EXPECT_TRUE(SparseDataset::Open(dir_.File("set/test.txt"), {}).ok());
}

TEST_F(ImporterTest, EveryRowIsAPointOfAModel) {
  options_.known = {.features = {"blue", "apples", "sky"}, .labels = {"red", "fruit"}};
  options_.source.labels_optional = true;
  WriteFile(dir_.File("in"), absl::StrCat(kCsv, "5,unheard of,\n"));
  std::filesystem::create_directory(dir_.File("set"));
  const std::string path = dir_.File("points.txt");
  ASSERT_TRUE(ImportForModel(options_, path).ok());
  EXPECT_EQ(ReadFile(path), "5 3 2\n0,1 1:1\n1 1:1\n \n 0:1 2:1\n \n");
  EXPECT_TRUE(SparseDataset::Open(path, {}).ok());
  WriteFile(dir_.File("in"), "title\nsky\n");
  ASSERT_TRUE(ImportForModel(options_, path).ok());
  EXPECT_EQ(ReadFile(path), "1 3 2\n 2:1\n");
  WriteFile(dir_.File("in"), "title\n");
  EXPECT_THAT(std::string(ImportForModel(options_, path).message()), HasSubstr("has no row"));
}

TEST_F(ImporterTest, KnownNamesKeepTheirIds) {
  options_.known = {.features = {"sky", "never", "", "apples"}, .labels = {"gone", "", "blue"}};
  options_.min_label_count = 2;
  options_.max_features = 5;
  const auto report = Import(kCsv, ImportFormat::kCsv);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Out("features.txt"), "sky\nnever\n\napples\nblue\n");
  EXPECT_EQ(Out("labels.txt"), "gone\n\nblue\nfruit\n");
  EXPECT_EQ(Out("train.txt"), "3 5 4\n3 3:1\n3 3:1\n2 0:1 4:1\n");
  EXPECT_EQ(report->new_features, 1);
  EXPECT_EQ(report->new_labels, 1);
  EXPECT_EQ(report->features_left_out, 3);
  EXPECT_EQ(report->labels_left_out, 3);
  // Once more with what came out: nothing is new.
  options_.known = {.features = {"sky", "never", "", "apples", "blue"},
                    .labels = {"gone", "", "blue", "fruit"}};
  const std::string train = Out("train.txt");
  const auto again = Import(kCsv, ImportFormat::kCsv);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->new_features + again->new_labels, 0);
  EXPECT_EQ(Out("train.txt"), train);
}

TEST_F(ImporterTest, RareNamesAreLeftOut) {
  options_.min_count = 2;
  options_.min_label_count = 2;
  const auto report = Import(kCsv, ImportFormat::kCsv);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(Out("train.txt"), "2 1 1\n0 0:1\n0 0:1\n");
  EXPECT_EQ(report->features_left_out, 5);
  EXPECT_EQ(report->labels_left_out, 4);
  options_.min_count = 1;
  options_.max_features = 2;
  EXPECT_EQ(Import(kCsv, ImportFormat::kCsv)->features, 2);
}

TEST_F(ImporterTest, ManyRowsGiveTheSameBytesForAnyThreadsAndOrderOfTheParts) {
  std::string csv = "title,tags\n";
  for (int i = 0; i < 3000; ++i) {
    absl::StrAppend(&csv, "word", i % 97, " word", i % 89, ",label", i % 7, "\n");
  }
  options_.test_fraction = 0.2;
  const auto report = Import(csv, ImportFormat::kCsv);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->train.points + report->test.points, 3000);
  EXPECT_NEAR(report->test.points, 600, 120);  // five standard deviations
  const std::string train = Out("train.txt");
  const std::string test = Out("test.txt");
  options_.parallelism.threads = 3;
  int64_t calls = 0;
  options_.progress = [&](const std::string&, int64_t done, int64_t total) {
    ++calls;
    EXPECT_LE(done, total);
  };
  ASSERT_TRUE(Import(csv, ImportFormat::kCsv).ok());
  EXPECT_EQ(Out("train.txt"), train);
  EXPECT_EQ(Out("test.txt"), test);
  EXPECT_GE(calls, 3);
}

TEST_F(ImporterTest, WhatIsWrongIsNamedWithItsPlace) {
  for (const auto& [format, text, error] :
       std::vector<std::tuple<ImportFormat, std::string, std::string>>{
           {ImportFormat::kCsv, "", "is empty"},
           {ImportFormat::kCsv, "title\nx\n", "no column \"tags\"; its 1 columns are \"title\""},
           {ImportFormat::kCsv, "title,tags,title\n", "several columns \"title\""},
           {ImportFormat::kCsv, "title,tags\na,b\nc,d,e\n", ":3:5: found a row of 3 fields"},
           {ImportFormat::kCsv, "title,tags\na\n", ":2:1: found a row of 1 fields, expected 2"},
           {ImportFormat::kCsv, "title,tags\n\"a\nb\xe9\",c\n", ":3:2: found \"\\xe9\", expected"},
           {ImportFormat::kCsv, std::string("title,tags\na\0,b", 15), ":2:2: found \"\\x00\""},
           {ImportFormat::kCsv, "\xff\xfet", "is text in UTF-16: save it as UTF-8"},
           {ImportFormat::kCsv, "title,tags\n,a\nb,\n", "no point to train on is left of 2 rows"},
           {ImportFormat::kJsonLines, "{\"title\": NaN}", ":1:11: found \"NaN}\""},
           {ImportFormat::kJsonLines, "\n[{\"title\": 1}]", ":2:1: found"},
           {ImportFormat::kJsonLines, "{\"title\": {}}", "expected a string, a number, null"},
           {ImportFormat::kJsonLines, "{\"title\": 1e317}", "numbers within a double's range"},
           {ImportFormat::kJsonLines, "{\"title\": \"a\"}", "no row with the field \"tags\""},
           {ImportFormat::kSvmlight, "1 5:0.2\n1 a:1\n", ":2:3: found \"a:1\""},
           {ImportFormat::kSvmlight, "1 5:0.2 5:1\n", ":1:9: found \"5:1\""},
           {ImportFormat::kSvmlight, "1 qid:1 5:nan\n", ":1:3: found \"qid:1\""},
           {ImportFormat::kSvmlight, "1 -5:1\n", ":1:3: found \"-5:1\""},
           {ImportFormat::kFastText, "__label__a \xc3\n", ":1:12: found"}}) {
    EXPECT_THAT(Error(text, format), HasSubstr(error)) << text;
    EXPECT_FALSE(std::filesystem::exists(dir_.File("set/train.txt"))) << text;
  }
}

TEST_F(ImporterTest, ASetIsReplacedOnlyWhenAskedAndOnlyByAnother) {
  ASSERT_TRUE(Import(kCsv, ImportFormat::kCsv).ok());
  EXPECT_THAT(Error("title,tags\n\"", ImportFormat::kCsv), HasSubstr("never closed"));
  EXPECT_THAT(Out("train.txt"), HasSubstr("3 6 5"));  // a malformed file has removed nothing
  options_.overwrite = false;
  EXPECT_THAT(std::string(ImportData(options_).status().message()),
              AllOf(HasSubstr("holds a data set already"), HasSubstr("--overwrite")));
}

TEST_F(ImporterTest, AnInterruptedImportLeavesNothing) {
  options_.stop_requested = [] { return true; };
  EXPECT_EQ(Import(kCsv, ImportFormat::kCsv).status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.File("set")));
}

TEST_F(ImporterTest, ASeparatorThatNobodyNamedIsSuspected) {
  options_.source.label_separator = "";
  EXPECT_EQ(Import(kCsv, ImportFormat::kCsv)->suspected_separator, ";");
  options_.source.label_separator = ";";
  EXPECT_EQ(Import(kCsv, ImportFormat::kCsv)->suspected_separator, "");
}

TEST_F(ImporterTest, ColumnsAreAlsoNumbers) {
  options_.source.has_header = false;
  options_.source.text_columns = {"2", "1"};
  options_.source.label_columns = {"3"};
  options_.source.delimiter = "tab";
  ASSERT_TRUE(Import("z\ty\tl\na\tb\tm;l\n", ImportFormat::kCsv).ok());
  EXPECT_EQ(Out("features.txt"), "a\nb\ny\nz\n");
  EXPECT_EQ(Out("labels.txt"), "l\nm\n");
  options_.source.text_columns = {"4"};
  EXPECT_THAT(Error("z\ty\tl\n", ImportFormat::kCsv), HasSubstr("known by their numbers"));
}

TEST_F(ImporterTest, OptionsOutOfRangeAreNamed) {
  const auto error = [&](auto change) {
    ImportOptions options = options_;
    change(&options);
    return std::string(options.Validate().message());
  };
  EXPECT_THAT(error([](ImportOptions* o) { o->min_count = 0; }), HasSubstr("min-count 0"));
  EXPECT_THAT(error([](ImportOptions* o) { o->test_fraction = 1; }), HasSubstr("test-fraction 1"));
  EXPECT_THAT(error([](ImportOptions* o) { o->source.delimiter = "::"; }), HasSubstr("\"::\""));
  EXPECT_THAT(error([](ImportOptions* o) { o->source.label_columns = {}; }), HasSubstr("column"));
  EXPECT_THAT(error([](ImportOptions* o) { o->tokenizer.min_characters = 9; }), HasSubstr("9"));
}

}  // namespace
}  // namespace dslide

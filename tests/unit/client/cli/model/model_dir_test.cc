#include "client/cli/model/model_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/cli/model/model_dir_writer.h"
#include "client/cli/model/model_files.h"
#include "client/cli/train/prediction_text.h"
#include "client/cli/train/spec_options.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelDirTest : public ::testing::Test {
 protected:
  ModelDirTest() : path_(absl::StrCat(testing::TempDir(), "/model-dir-test.", getpid())) {
    std::filesystem::remove_all(path_);
    data_ = *SparseDataset::FromText("data", "2 3 4\n0 1:1\n1,3 0:2 2:1\n", {});
    SpecOptions options;
    options.network = true;
    model_.spec = *ResolveSpec(options, *data_);
    model_.features.idf = {0.5f, 1.25f, 0.1f};
    model_.features.names = {"red", "green", "blue"};
    model_.labels = {"a", "b", "c", "d"};
    model_.label_counts = {.points = 2, .of_label = {1, 1, 0, 1}};
    model_.origin.shards = 2;
    model_.origin.seed = 9;
    model_.origin.revision = "abc";
  }

  const std::string path_;
  std::unique_ptr<SparseDataset> data_;
  StoredModel model_;
};

TEST_F(ModelDirTest, WhatIsSavedIsLoaded) {
  std::filesystem::create_directories(path_);
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  const auto loaded = LoadModel(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->spec, model_.spec);
  EXPECT_EQ(loaded->features.idf, model_.features.idf);
  EXPECT_EQ(loaded->features.names, model_.features.names);
  EXPECT_EQ(loaded->labels, model_.labels);
  EXPECT_EQ(loaded->label_counts.points, 2);
  EXPECT_THAT(loaded->label_counts.of_label, ElementsAre(1, 1, 0, 1));
  EXPECT_EQ(loaded->origin.shards, 2);
  EXPECT_EQ(loaded->origin.seed, 9u);
  EXPECT_EQ(loaded->LabelName(RowId(3)), "d");
  EXPECT_EQ(loaded->LabelName(RowId(4)), "");
}

TEST_F(ModelDirTest, AModelIsReplacedAsAWholeAndOnlyWhenAsked) {
  {
    const auto first = ModelDirWriter::Open(path_, ModelDirUse::kNew);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(SaveModel((*first)->staging(), model_).ok());
    EXPECT_EQ(LoadModel(path_).status().code(), absl::StatusCode::kNotFound) << "not complete yet";
    EXPECT_THAT(
        std::string(ModelDirWriter::Open(path_, ModelDirUse::kOverwrite).status().message()),
        HasSubstr(absl::StrCat(getpid())))
        << "another writer is named";
    ASSERT_TRUE((*first)->Commit().ok());
  }
  std::filesystem::create_directories(path_ + "/shard-0/old");
  const absl::Status refused = ModelDirWriter::Open(path_, ModelDirUse::kNew).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--overwrite"));
  {
    const auto given_up = ModelDirWriter::Open(path_, ModelDirUse::kOverwrite);
    ASSERT_TRUE(given_up.ok()) << given_up.status();
  }
  EXPECT_TRUE(LoadModel(path_).ok()) << "an earlier model stays until the next one is complete";
  const auto second = ModelDirWriter::Open(path_, ModelDirUse::kOverwrite);
  ASSERT_TRUE(second.ok()) << second.status();
  model_.labels.clear();
  ASSERT_TRUE(SaveModel((*second)->staging(), model_).ok());
  ASSERT_TRUE((*second)->Commit().ok());
  EXPECT_FALSE(std::filesystem::exists(path_ + "/shard-0"));
  EXPECT_TRUE(LoadModel(path_)->labels.empty());
}

TEST_F(ModelDirTest, OtherPeoplesFilesAreNeverTouched) {
  std::filesystem::create_directories(path_);
  std::ofstream(path_ + "/thesis.tex") << "x";
  EXPECT_FALSE(ModelDirWriter::Open(path_, ModelDirUse::kOverwrite).ok());
  EXPECT_TRUE(std::filesystem::exists(path_ + "/thesis.tex"));
}

TEST_F(ModelDirTest, AnAbsentOrNewerModelIsAClearError) {
  EXPECT_EQ(LoadModel(path_).status().code(), absl::StatusCode::kNotFound);
  std::filesystem::create_directories(path_);
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  std::filesystem::remove(path_ + "/FILES");
  std::ofstream(path_ + "/dslide.json") << R"({"format": 99})";
  EXPECT_THAT(std::string(LoadModel(path_).status().message()), HasSubstr("format 99"));
  std::ofstream(path_ + "/dslide.json") << "not json";
  EXPECT_EQ(LoadModel(path_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelDirTest, AFlippedBitOfAnyFileIsDataLoss) {
  std::filesystem::create_directories(path_);
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  for (const std::string name :
       {"model.json", "dslide.json", "features.tsv", "labels.txt", "label_counts.txt", "FILES"}) {
    const std::string path = absl::StrCat(path_, "/", name);
    std::stringstream good;
    good << std::ifstream(path, std::ios::binary).rdbuf();
    std::string bad = good.str();
    ASSERT_GT(bad.size(), 4u);
    bad[4] ^= 0x01;  // a digit becomes another one
    std::ofstream(path, std::ios::binary) << bad;
    const absl::Status refused = LoadModel(path_).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << name;
    EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr(path), HasSubstr("--overwrite")));
    std::filesystem::remove(path);
    // Without the list nothing is known to be wrong.
    if (name != "FILES") {
      EXPECT_EQ(LoadModel(path_).status().code(),
                name == "dslide.json" ? absl::StatusCode::kNotFound : absl::StatusCode::kDataLoss)
          << name;
    }
    std::ofstream(path, std::ios::binary) << good.str();
    EXPECT_TRUE(LoadModel(path_).ok()) << name;
  }
  std::ofstream(path_ + "/vocabulary.tsv") << "of another model";
  EXPECT_EQ(LoadModel(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ModelDirTest, AMalformedCountIsNamed) {
  std::filesystem::create_directories(path_);
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  for (const auto& [text, place] :
       {std::pair("0\n1\n", ":1:1: found \"0\""), std::pair("2\n1\n-1\n", ":3:1: found \"-1\""),
        std::pair("2\n1\nx\n", ":3:1: found \"x\""),
        std::pair("2\n1\n1\n", " counts 2 labels, the model has 4")}) {
    std::ofstream(path_ + "/label_counts.txt") << text;
    ASSERT_TRUE(SealModelFiles(path_).ok());
    EXPECT_THAT(std::string(LoadModel(path_).status().message()),
                HasSubstr(absl::StrCat("label_counts.txt", place)));
  }
}

TEST_F(ModelDirTest, ADirectoryOfAnEarlierVersionIsLoadedWithAWarning) {
  std::filesystem::create_directories(path_);
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  testing::internal::CaptureStderr();
  EXPECT_TRUE(LoadModel(path_).ok());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::filesystem::remove(path_ + "/FILES");
  testing::internal::CaptureStderr();
  EXPECT_TRUE(LoadModel(path_).ok());
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("warning"));
  // Trained further, it has one.
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  EXPECT_TRUE(std::filesystem::exists(path_ + "/FILES"));
}

TEST_F(ModelDirTest, MissingRowsAreDataLossWithTheRemedy) {
  std::filesystem::create_directories(path_);
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  const absl::Status never_written = CheckRowsKept(path_, model_);
  EXPECT_EQ(never_written.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(never_written.message()),
      AllOf(HasSubstr(path_), HasSubstr("killed before it wrote them"), HasSubstr("--overwrite")));
  std::filesystem::create_directories(
      absl::StrCat(path_, "/shard-0/images/", model_.spec.name, ".latest"));
  const absl::Status one_missing = CheckRowsKept(path_, model_);
  EXPECT_EQ(one_missing.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(one_missing.message()),
              AllOf(HasSubstr(absl::StrCat("1 of 2 shards are missing: ", path_, "/shard-1 ")),
                    HasSubstr("restore"), HasSubstr("--overwrite")));
  // As it is while a checkpoint takes the place of an earlier one.
  std::filesystem::create_directories(
      absl::StrCat(path_, "/shard-1/images/.old-", model_.spec.name, ".latest"));
  EXPECT_TRUE(CheckRowsKept(path_, model_).ok());
}

TEST_F(ModelDirTest, ATextIsCutAsTheDataWas) {
  const auto features_of = [&](const std::string& text) {
    const auto query = EncoderOf(model_)->Encode(text);
    return query.ok() ? query->batch.features : std::vector<RowId>();
  };
  EXPECT_THAT(features_of("Blue-green"), ElementsAre(RowId(1), RowId(2)));
  model_.tokenizer = TokenizerOptions{.kind = TokenizerKind::kCharacters};
  EXPECT_THAT(features_of("lightblue"), ElementsAre(RowId(2)));
  model_.features.names[1] = "lue";
  EXPECT_THAT(features_of("lightblue"), ElementsAre(RowId(1), RowId(2)));
  model_.features.names = {"", "", ""};
  EXPECT_EQ(EncoderOf(model_).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ModelDirTest, TheTokenizerIsKept) {
  std::filesystem::create_directories(path_);
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  EXPECT_EQ(LoadModel(path_)->tokenizer, std::nullopt);
  model_.tokenizer = TokenizerOptions{.kind = TokenizerKind::kWhitespace, .lower_case = false};
  ASSERT_TRUE(SaveModel(path_, model_).ok());
  EXPECT_EQ(LoadModel(path_)->tokenizer, model_.tokenizer);
}

TEST_F(ModelDirTest, PointsAreShownByTheirRarestWords) {
  const std::vector<RowId> features = {RowId(0), RowId(1), RowId(2)};
  const std::vector<float> values = {1, 1, 1};
  EXPECT_EQ(DescribeInput(model_, features, values, 2), "green red");
}

TEST_F(ModelDirTest, PredictionsAreNamed) {
  const Prediction prediction{{RowId(3), RowId(0)}, {2.5f, 1.0f}};
  EXPECT_EQ(PredictionToText(model_, prediction), "  1. d (2.50)\n  2. a (1.00)");
  model_.labels.clear();
  EXPECT_EQ(NameOf(model_, RowId(3)), "label 3");
}

TEST_F(ModelDirTest, ADefaultSpecFitsTheData) {
  EXPECT_EQ(model_.spec.tables[0].rows, 4);  // three features and the bias row
  EXPECT_EQ(model_.spec.tables[1].rows, 4);
  EXPECT_EQ(model_.spec.tables[1].head.max_active, 0);  // too small to hash
}

TEST_F(ModelDirTest, WithoutASpecPointsGetAMemoryAndTrees) {
  std::string explanation;
  const auto spec = ResolveSpec(SpecOptions(), *data_, &explanation);
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->tables.size(), 4u);
  EXPECT_EQ(spec->tables[0].role, TableRole::kMemory);
  EXPECT_EQ(spec->tables[0].rows, data_->num_points());
  EXPECT_EQ(spec->num_labels(), data_->num_labels());
  EXPECT_EQ(spec->tables[1].trees.depth, 0);  // few enough labels for one leaf
  EXPECT_THAT(explanation, HasSubstr("a memory, 4 label trees and their fusion, and no network"));
  EXPECT_EQ(spec->training.transform, InputTransform::kTfIdf);
  SpecOptions one_flag;
  one_flag.dim = 8;
  EXPECT_EQ(ResolveSpec(one_flag, *data_)->tables.size(), 2u);
}

TEST_F(ModelDirTest, FlagsOverruleTheSpec) {
  SpecOptions options;
  options.seed = 5;
  options.batch_size = 32;
  options.dim = 16;
  options.learning_rate = 0.25;
  options.max_active = 3;
  options.activations = "bf16";
  options.transform = "tf-idf";
  const auto spec = ResolveSpec(options, *data_);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->seed, 5u);
  EXPECT_EQ(spec->training.batch_size, 32);
  EXPECT_EQ(spec->tables[0].dim, 16);
  EXPECT_EQ(spec->tables[1].dim, 16);
  EXPECT_EQ(spec->tables[1].optimizer.learning_rate, 0.25);
  EXPECT_EQ(spec->tables[1].head.max_active, 3);
  EXPECT_EQ(spec->activations, ActivationType::kBf16);
  EXPECT_EQ(spec->training.transform, InputTransform::kTfIdf);
  options.batch_size = 0;
  EXPECT_EQ(ResolveSpec(options, *data_).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dslide::cli

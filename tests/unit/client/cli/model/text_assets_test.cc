#include "client/cli/model/text_assets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dslide::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;

TEST(TextAssetsTest, TheFilesAreThoseOfAModelDirectory) {
  StoredModel model;
  model.features.idf = {0.5f, 1.25f};
  model.features.names = {"red", "green"};
  model.labels = {"a", "b"};
  model.label_counts = {.points = 2, .of_label = {1, 1}};
  model.tokenizer = TokenizerOptions();
  const auto files = EncodeTexts(model);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, ElementsAre(Key("features.tsv"), Key("label_counts.txt"), Key("labels.txt"),
                                  Key("tokenizer.json")));
  EXPECT_EQ(files->at("features.tsv"), "0.5\tred\n1.25\tgreen\n");
  EXPECT_EQ(files->at("label_counts.txt"), "2\n1\n1\n");
  EXPECT_EQ(files->at("labels.txt"), "a\nb\n");
}

TEST(TextAssetsTest, NamesThatDoNotFitALineAreRefused) {
  StoredModel model;
  model.features.idf = {0.5f};
  model.features.names = {"a\tb"};
  EXPECT_EQ(EncodeTexts(model).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TextAssetsTest, ASetIsKnownByItsNamesAndBytes) {
  const AssetFiles files = {{"a", "x"}, {"b", "y"}};
  const uint32_t checksum = ListOfAssets(files).checksum;
  EXPECT_EQ(ListOfAssets({{"b", "y"}, {"a", "x"}}).checksum, checksum);
  EXPECT_NE(ListOfAssets({{"a", "x"}, {"b", "z"}}).checksum, checksum);
  EXPECT_NE(ListOfAssets({{"a", "x"}, {"c", "y"}}).checksum, checksum);
}

}  // namespace
}  // namespace dslide::cli

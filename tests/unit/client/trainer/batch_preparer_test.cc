#include "client/trainer/batch_preparer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/engine/data/sparse_dataset.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kData[] =
    "4 6 5\n"
    "0,3 0:3 2:4\n"
    " 1:1\n"
    "2 5:2\n"
    "1,4 3:1 4:1\n";

class BatchPreparerTest : public ::testing::Test {
 protected:
  BatchPreparerTest() : data_(*SparseDataset::FromText("data", kData, {})) {}

  static ModelSpec Spec() {
    ModelSpec spec;
    spec.name = "m";
    TableSpec input;
    input.name = "in";
    input.rows = 7;
    input.dim = 4;
    input.bias_row = true;
    input.num_slots = 7;
    TableSpec head;
    head.name = "out";
    head.role = TableRole::kHead;
    head.rows = 5;
    head.dim = 4;
    head.num_slots = 5;
    spec.tables = {input, head};
    return spec;
  }

  std::unique_ptr<BatchPreparer> Make(const ModelSpec& spec, int64_t shards,
                                      std::vector<float> idf = {},
                                      std::vector<float> label_weights = {}) {
    network_ = std::make_unique<Network>(*Network::Create(spec));
    const std::vector<double> weights(static_cast<size_t>(shards), 1.0);
    BatchPreparerOptions options;
    options.idf = std::move(idf);
    options.label_weights = std::move(label_weights);
    auto preparer = BatchPreparer::Create(*network_, *SlotMap::Deal(7, weights),
                                          *SlotMap::Deal(5, weights), options);
    EXPECT_TRUE(preparer.ok()) << preparer.status();
    return std::move(*preparer);
  }

  static std::vector<int64_t> AllFour() { return {0, 1, 2, 3}; }

  // All shards' parts put together: per sample, feature -> value.
  static std::vector<std::map<uint32_t, float>> Inputs(const PreparedBatch& batch) {
    std::vector<std::map<uint32_t, float>> all(static_cast<size_t>(batch.samples()));
    for (const EmbedForwardOp& op : batch.inputs) {
      for (size_t s = 0; s < all.size(); ++s) {
        for (uint32_t i = op.offsets[s]; i < op.offsets[s + 1]; ++i) {
          all[s][op.rows[i].value()] = op.values[i];
        }
      }
    }
    return all;
  }

  std::unique_ptr<SparseDataset> data_;
  std::unique_ptr<Network> network_;
};

TEST_F(BatchPreparerTest, TransformsAddsTheBiasRowAndSkipsPointsWithoutLabels) {
  const auto preparer = Make(Spec(), 2);
  const auto batch =
      preparer->Prepare(*data_, BatchUse::kTraining, 0, std::vector<int64_t>{0, 1, 2});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_THAT(batch->points, ElementsAre(0, 2));
  EXPECT_THAT(batch->label_targets, ElementsAre(0.5f, 1.0f));
  const auto inputs = Inputs(*batch);
  EXPECT_EQ(inputs[0], (std::map<uint32_t, float>{{0, 0.6f}, {2, 0.8f}, {6, 1.0f}}));
  EXPECT_EQ(inputs[1], (std::map<uint32_t, float>{{5, 1.0f}, {6, 1.0f}}));
}

TEST_F(BatchPreparerTest, EvaluationKeepsEveryPoint) {
  const auto preparer = Make(Spec(), 3);
  const auto batch =
      preparer->Prepare(*data_, BatchUse::kEvaluation, 0, std::vector<int64_t>{1, 0});
  ASSERT_TRUE(batch.ok());
  EXPECT_THAT(batch->points, ElementsAre(1, 0));
  EXPECT_EQ(batch->label_targets[0], 0.0f);
}

TEST_F(BatchPreparerTest, EvaluationAsksForAveragesWhereTheTableKeepsThem) {
  for (const double decay : {0.0, 0.9}) {
    ModelSpec spec = Spec();
    spec.tables[0].optimizer.average_decay = decay;
    const auto preparer = Make(spec, 2);
    const auto predicted = preparer->Prepare(*data_, BatchUse::kEvaluation, 0, AllFour());
    const auto trained = preparer->Prepare(*data_, BatchUse::kTraining, 0, AllFour());
    for (const EmbedForwardOp& op : predicted->inputs) EXPECT_EQ(op.averaged, decay > 0.0);
    for (const EmbedForwardOp& op : trained->inputs) EXPECT_FALSE(op.averaged);
  }
}

TEST_F(BatchPreparerTest, TrainingWeighsLabelsByTheirPropensities) {
  ModelSpec spec = Spec();
  spec.training.propensity_strength = 0.5;
  const std::vector<float> weights = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f};
  const auto preparer = Make(spec, 2, {}, weights);
  const auto batch = preparer->Prepare(*data_, BatchUse::kTraining, 0, AllFour());
  ASSERT_TRUE(batch.ok()) << batch.status();
  int64_t labels = 0;
  for (const RaggedSlice& slice : batch->labels) {
    ASSERT_EQ(slice.values.size(), slice.rows.size());
    for (size_t i = 0; i < slice.rows.size(); ++i, ++labels) {
      EXPECT_EQ(slice.values[i], weights[slice.rows[i].value()]);
    }
  }
  EXPECT_EQ(labels, 5);
  const auto predicted = preparer->Prepare(*data_, BatchUse::kEvaluation, 0, AllFour());
  for (const RaggedSlice& slice : predicted->labels) EXPECT_TRUE(slice.values.empty());
  const absl::Status unknown =
      Make(spec, 2)->Prepare(*data_, BatchUse::kTraining, 0, AllFour()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(unknown)) << unknown;
  const std::vector<double> shards = {1.0};
  const auto other =
      BatchPreparer::Create(*network_, *SlotMap::Deal(7, shards), *SlotMap::Deal(5, shards),
                            {.seed = 1, .idf = {}, .label_weights = {1.0f}});
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("1 weights of labels"));
}

TEST_F(BatchPreparerTest, TheNumberOfShardsChangesNothingButTheCut) {
  const auto one = Make(Spec(), 1)->Prepare(*data_, BatchUse::kTraining, 0, AllFour());
  const auto five = Make(Spec(), 5)->Prepare(*data_, BatchUse::kTraining, 0, AllFour());
  EXPECT_EQ(Inputs(*one), Inputs(*five));
}

TEST_F(BatchPreparerTest, DropoutFollowsSeedEpochAndPointAndSparesTheBiasRow) {
  ModelSpec spec = Spec();
  spec.training.input_dropout = 0.9;
  const auto preparer = Make(spec, 1);
  int64_t dropped = 0;
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    const auto a = preparer->Prepare(*data_, BatchUse::kTraining, epoch, AllFour());
    const auto b =
        preparer->Prepare(*data_, BatchUse::kTraining, epoch, std::vector<int64_t>{3, 2, 0});
    const auto all = Inputs(*a);
    EXPECT_EQ(all[2], Inputs(*b)[0]);
    for (const auto& sample : all) {
      EXPECT_EQ(sample.at(6), 1.0f);
      dropped += sample.size() == 1 ? 1 : 0;
    }
    if (const auto it = all[1].find(5); it != all[1].end()) {
      EXPECT_NEAR(it->second, 10.0f, 1e-3);
    }
  }
  EXPECT_GT(dropped, 75);  // of 150; expected 0.9 * 0.9 * 100 + 0.9 * 50
}

TEST_F(BatchPreparerTest, NamesThePointThatDoesNotFitTheModel) {
  ModelSpec spec = Spec();
  spec.tables[0].rows = 5;
  spec.tables[0].num_slots = 5;
  network_ = std::make_unique<Network>(*Network::Create(spec));
  const std::vector<double> weights = {1.0};
  const auto preparer =
      BatchPreparer::Create(*network_, *SlotMap::Deal(5, weights), *SlotMap::Deal(5, weights), {});
  const absl::Status status =
      (*preparer)->Prepare(*data_, BatchUse::kTraining, 0, std::vector<int64_t>{0, 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("point 2 has feature 5"));
}

TEST_F(BatchPreparerTest, TfIdfNeedsAWeightForEachFeature) {
  ModelSpec spec = Spec();
  spec.training.transform = InputTransform::kTfIdf;
  const Network network = *Network::Create(spec);
  const std::vector<double> weights = {1.0};
  EXPECT_EQ(
      BatchPreparer::Create(network, *SlotMap::Deal(7, weights), *SlotMap::Deal(5, weights), {})
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
}

TEST_F(BatchPreparerTest, FeaturesOfAGrownTableHaveTheirRowsAroundTheBiasRow) {
  ModelSpec spec = Spec();
  spec.tables[0].base_rows = 4;  // made for three features
  for (const int64_t shards : {1, 3}) {
    const auto preparer = Make(spec, shards);
    const auto batch = preparer->Prepare(*data_, BatchUse::kEvaluation, 0, AllFour());
    ASSERT_TRUE(batch.ok()) << batch.status();
    const std::vector<std::map<uint32_t, float>> inputs = Inputs(*batch);
    const auto rows_of = [&](size_t sample) {
      std::vector<uint32_t> rows;
      for (const auto& [row, value] : inputs[sample]) rows.push_back(row);
      return rows;
    };
    EXPECT_THAT(rows_of(0), ElementsAre(0, 2, 3));
    EXPECT_THAT(rows_of(1), ElementsAre(1, 3));
    EXPECT_THAT(rows_of(2), ElementsAre(3, 6));
    EXPECT_THAT(rows_of(3), ElementsAre(3, 4, 5));
    EXPECT_EQ(inputs[2].at(3), 1.0f);
    for (const EmbedForwardOp& op : batch->inputs) {
      for (size_t s = 0; s + 1 < op.offsets.size(); ++s) {
        EXPECT_TRUE(
            std::is_sorted(op.rows.begin() + op.offsets[s], op.rows.begin() + op.offsets[s + 1]));
      }
    }
  }
}

TEST_F(BatchPreparerTest, FeaturesThatCameLaterWeighAsTheRarest) {
  ModelSpec spec = Spec();
  spec.training.transform = InputTransform::kTfIdf;
  spec.tables[0].base_rows = 6;
  const auto inputs = [&](std::vector<float> idf) {
    return Inputs(
        *Make(spec, 1, std::move(idf))->Prepare(*data_, BatchUse::kEvaluation, 0, AllFour()));
  };
  EXPECT_EQ(inputs({1, 2, 3, 4, 5}), inputs({1, 2, 3, 4, 5, 5}));
  // Not those that it was made for.
  Network network = *Network::Create(spec);
  EXPECT_FALSE(BatchPreparer::Create(network, *SlotMap::Deal(7, {1.0}), *SlotMap::Deal(5, {1.0}),
                                     {.idf = {1, 2, 3, 4}})
                   .ok());
}

}  // namespace
}  // namespace dslide

// v1.SparsePoints, as a server of data writes them and trainers read them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "absl/status/status.h"
#include "client/cli/serve/data_service.h"
#include "client/cli/source/served_dataset_client.h"

namespace dslide::cli {
namespace {

using ::testing::HasSubstr;

// Three points: one of two features, one without features, one without labels.
SparseBatch ThreePoints(float value) {
  SparseBatch batch;
  batch.features = {RowId(0), RowId(7)};
  batch.values = {1.0f, value};
  batch.labels = {RowId(2), RowId(3)};
  batch.FinishSample();
  batch.labels.emplace_back(4);
  batch.FinishSample();
  batch.features.emplace_back(1u);
  batch.values.push_back(1.0f);
  batch.FinishSample();
  return batch;
}

absl::Status Append(const v1::SparsePoints& points, SparseBatch* batch, int64_t max_points = 3) {
  return AppendPoints(points, max_points, /*num_features=*/8, /*num_labels=*/5, batch);
}

void ExpectEqual(const SparseBatch& a, const SparseBatch& b) {
  EXPECT_EQ(a.feature_offsets, b.feature_offsets);
  EXPECT_EQ(a.features, b.features);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.label_offsets, b.label_offsets);
  EXPECT_EQ(a.labels, b.labels);
}

TEST(SparsePointsTest, PointsComeBackBehindThoseThatAreThere) {
  for (const float value : {1.0f, -0.25f}) {
    const SparseBatch sent = ThreePoints(value);
    const v1::SparsePoints wire = ToWire(sent);
    EXPECT_EQ(wire.values_size(), value == 1.0f ? 0 : 3);  // ones are not sent
    SparseBatch got;
    ASSERT_TRUE(Append(wire, &got).ok());
    ExpectEqual(got, sent);
    ASSERT_TRUE(Append(wire, &got).ok());
    EXPECT_EQ(got.samples(), 6);
    EXPECT_EQ(got.FeaturesOf(3), sent.FeaturesOf(0));
    EXPECT_EQ(got.LabelsOf(4), sent.LabelsOf(1));
  }
}

TEST(SparsePointsTest, NoPointIsLargerThanExpected) {
  SparseBatch batch;
  int64_t bytes = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    batch.features.emplace_back(std::numeric_limits<uint32_t>::max() - 200 + i);
    batch.values.push_back(0.5f);
    batch.labels.emplace_back(i);
  }
  batch.FinishSample();
  batch.FinishSample();
  for (int64_t s = 0; s < 2; ++s) bytes += MaxWireBytes(batch, s);
  constexpr int64_t kTagsAndLengths = 5 * 3;
  EXPECT_LE(static_cast<int64_t>(ToWire(batch).ByteSizeLong()), bytes + kTagsAndLengths);
}

TEST(SparsePointsTest, WrongPointsAreRefusedAndNothingIsAppended) {
  struct Case {
    const char* says;
    std::function<void(v1::SparsePoints&)> spoil;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {"0 points", [](auto& p) { p.Clear(); }},
      {"4 points", [](auto& p) { p.add_feature_counts(0), p.add_label_counts(0); }},
      {"3 points with features and 2", [](auto& p) { p.mutable_label_counts()->RemoveLast(); }},
      {"4 features where the counts say 3", [](auto& p) { p.add_features(7); }},
      {"counts say 4294967298", [](auto& p) { p.set_label_counts(2, 4294967295u); }},
      {"features[1] is 8", [](auto& p) { p.set_features(1, 8); }},
      {"features[1] is 0", [](auto& p) { p.set_features(1, 0); }},
      {"labels[2] is 5", [](auto& p) { p.set_labels(2, 5); }},
      {"labels[1] is 2", [](auto& p) { p.set_labels(1, 2); }},
      {"2 values for 3", [](auto& p) { p.mutable_values()->RemoveLast(); }},
      {"no finite number", [&](auto& p) { p.set_values(0, infinity); }},
  };
  for (const Case& spoilt : cases) {
    v1::SparsePoints wire = ToWire(ThreePoints(0.5f));
    spoilt.spoil(wire);
    SparseBatch batch;
    const absl::Status status = Append(wire, &batch);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << spoilt.says;
    EXPECT_THAT(status.message(), HasSubstr(spoilt.says));
    ExpectEqual(batch, SparseBatch());
  }
}

}  // namespace
}  // namespace dslide::cli

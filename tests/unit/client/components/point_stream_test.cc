// Points are looked at as a whole before any is sent.

#include "client/components/point_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/engine/data/sparse_dataset.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPoints = 3000;

ModelSpec SpecOfMemory(int64_t labels) {
  ModelSpec spec;
  spec.name = "m";
  TableSpec memory;
  memory.name = "points";
  memory.role = TableRole::kMemory;
  memory.rows = 100;
  memory.memory.labels = labels;
  spec.tables = {memory};
  spec.magnitude_bound = 100;
  return spec;
}

class PointStreamTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  // Points of value 1 but for the last one.
  std::unique_ptr<Dataset> Data(const std::string& last) {
    std::ofstream out(path_);
    out << kPoints << " 5 3\n";
    for (int64_t i = 0; i + 1 < kPoints; ++i) out << "2 0:1 4:1\n";
    out << "1 3:" << last << "\n";
    out.close();
    auto data = SparseDataset::Open(path_, {});
    EXPECT_TRUE(data.ok()) << data.status();
    return *std::move(data);
  }
  static absl::Status Check(const Dataset& data, int64_t first = 0, int64_t labels = 3) {
    return CheckPoints(data, first, SpecOfMemory(labels), ValueTransform::kRaw, {}, nullptr);
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "/points_", getpid(), ".txt");
};

TEST_F(PointStreamTest, PointsThatFitDo) {
  EXPECT_TRUE(Check(*Data("100")).ok());
  EXPECT_TRUE(Check(*Data("-100"), (int64_t{1} << 32) - kPoints).ok());
}

TEST_F(PointStreamTest, ThoseThatDoNotAreNamed) {
  const auto data = Data("-100.5");
  EXPECT_EQ(Check(*data).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Check(*data).message()),
              HasSubstr("point 2999, counted from 0, has the value -100.5 for feature 3, the "
                        "model's magnitude_bound is 100"));
  // What is sent counts, not what stands there.
  EXPECT_TRUE(CheckPoints(*data, 0, SpecOfMemory(3), ValueTransform::kL2, {}, nullptr).ok());
  EXPECT_THAT(std::string(Check(*data, (int64_t{1} << 32) - kPoints + 1).message()),
              HasSubstr("must be in [0, 4294967296)"));
  EXPECT_THAT(std::string(Check(*data, 0, 2).message()), HasSubstr("--grow gives it the labels"));
}

TEST_F(PointStreamTest, ItStopsWhenItIsAskedTo) {
  const auto data = Data("1");
  EXPECT_EQ(
      CheckPoints(*data, 0, SpecOfMemory(3), ValueTransform::kRaw, {}, [] { return true; }).code(),
      absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace dslide

#include "services/coordinator/models/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/reason.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {
namespace {

TEST(CatalogTest, AnEqualModelIsNotCreatedAgain) {
  Catalog catalog;
  EXPECT_TRUE(*catalog.Check(TestModel("m")));
  EXPECT_TRUE(*catalog.Add(TestModel("m")));
  EXPECT_FALSE(*catalog.Add(TestModel("m")));
  EXPECT_EQ(catalog.size(), 1u);
  EXPECT_EQ(*catalog.Find("m"), TestModel("m"));
}

TEST(CatalogTest, ADifferentModelOfTheNameIsRefused) {
  Catalog catalog;
  ASSERT_TRUE(catalog.Add(TestModel("m", 100)).ok());
  const auto refused = catalog.Add(TestModel("m", 101));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused.status()), "MODEL_DIFFERS");
  // Which field, both values, and the command that helps.
  EXPECT_THAT(std::string(refused.status().message()),
              testing::AllOf(testing::HasSubstr("rows is 100, not 101"),
                             testing::HasSubstr("dslide model delete m")));
  EXPECT_EQ(*catalog.Find("m"), TestModel("m", 100));
}

TEST(CatalogTest, JobsMayTrainAModelInAnotherWay) {
  Catalog catalog;
  ASSERT_TRUE(catalog.Add(TestModel("m")).ok());
  ModelSpec other = TestModel("m");
  other.training.max_epochs += 7;
  other.tables[0].optimizer.learning_rate /= 2;
  EXPECT_FALSE(*catalog.Add(other));
  EXPECT_EQ(*catalog.Find("m"), TestModel("m"));
}

TEST(CatalogTest, AnInvalidModelIsRefused) {
  Catalog catalog;
  EXPECT_EQ(catalog.Add(TestModel("Not A Name")).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(catalog.Add(TestModel("m", 0)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(catalog.empty());
}

TEST(CatalogTest, ModelsAreListedByNameAndRemoved) {
  Catalog catalog;
  ASSERT_TRUE(catalog.Add(TestModel("b")).ok());
  ASSERT_TRUE(catalog.Add(TestModel("a")).ok());
  ASSERT_EQ(catalog.List().size(), 2u);
  EXPECT_EQ(catalog.List()[0].name, "a");
  EXPECT_TRUE(catalog.Remove("a").ok());
  EXPECT_EQ(ReasonOf(catalog.Remove("a")), "UNKNOWN_MODEL");
  EXPECT_EQ(catalog.Find("a"), nullptr);
}

}  // namespace
}  // namespace dslide::coordinator

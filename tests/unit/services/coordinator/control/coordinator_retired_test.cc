// Labels that all shards of a cluster leave out of predictions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/reason.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "services/coordinator/control/coordinator.h"
#include "tests/unit/services/coordinator/coordinator_fixture.h"

namespace dslide::coordinator {
namespace {

using ::testing::HasSubstr;

class CoordinatorRetiredTest : public CoordinatorFixture {
 protected:
  absl::StatusOr<ModelRetirement> Retire(const std::string& labels, bool restore = false,
                                         bool dry_run = false) {
    return coordinator_->RetireLabels({.model = "m",
                                       .labels = *RetiredLabels::Parse(labels),
                                       .restore = restore,
                                       .dry_run = dry_run},
                                      kTimeout);
  }
  std::string RetiredOn(const std::string& address) {
    return shards_.With(address,
                        [](auto& shard) { return shard.models.at("m").spec.retired_labels; });
  }
  std::string Registered() { return coordinator_->registry().ListModels().at(0).retired_labels; }
};

TEST_F(CoordinatorRetiredTest, EveryShardIsToldAndTheCatalogKnows) {
  StartWithModel();
  const auto retired = Retire("9,3-5");
  ASSERT_TRUE(retired.ok()) << retired.status();
  EXPECT_EQ(retired->retired_before, 0);
  EXPECT_EQ(retired->retired, 4);
  EXPECT_EQ(retired->spec.retired_labels, "3-5,9");
  EXPECT_EQ(RetiredOn("a:1"), "3-5,9");
  EXPECT_EQ(RetiredOn("b:1"), "3-5,9");
  const auto more = Retire("4-7");
  EXPECT_EQ(more->retired_before, 4);
  EXPECT_EQ(Registered(), "3-7,9");
  const auto fewer = Retire("0-5", /*restore=*/true);
  EXPECT_EQ(fewer->retired, 3);
  EXPECT_EQ(RetiredOn("b:1"), "6-7,9");
  Restart(/*with_store=*/true);
  EXPECT_EQ(Registered(), "6-7,9");
  // A trainer that knows nothing of it joins the same model.
  const auto joined = coordinator_->RegisterModel(TestModel("m"), kTimeout);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_FALSE(*joined);
  EXPECT_EQ(Registered(), "6-7,9");
}

TEST_F(CoordinatorRetiredTest, WhatCannotBeIsRefusedBeforeAnythingChanges) {
  StartWithModel();
  const auto beyond = Retire("100");
  EXPECT_EQ(ReasonOf(beyond.status()), reason::kOutOfRange);
  EXPECT_THAT(std::string(beyond.status().message()), HasSubstr("has no label 100, it has 100"));
  const auto all = Retire("0-99");
  EXPECT_EQ(ReasonOf(all.status()), reason::kOutOfRange);
  EXPECT_THAT(std::string(all.status().message()), HasSubstr("nothing would be predicted"));
  EXPECT_EQ(ReasonOf(coordinator_->RetireLabels({.model = "other"}, kTimeout).status()),
            reason::kUnknownModel);
  EXPECT_EQ(Retire("1-2", /*restore=*/false, /*dry_run=*/true)->retired, 2);
  EXPECT_EQ(Registered(), "");
  EXPECT_EQ(RetiredOn("a:1"), "");
}

TEST_F(CoordinatorRetiredTest, AShardThatWasAwayIsToldWhenItIsBack) {
  StartWithModel();
  shards_.With("b:1",
               [](auto& shard) { shard.create_failure = absl::UnavailableError("it is away"); });
  EXPECT_FALSE(Retire("7").ok());
  EXPECT_EQ(Registered(), "7");
  shards_.With("b:1", [](auto& shard) { shard.create_failure = absl::OkStatus(); });
  ASSERT_TRUE(
      coordinator_->registry().Register(Registration(3, "b:1", 1, 3.0), {TestModel("m")}).ok());
  Await([&] { return RetiredOn("b:1") == "7"; });
  EXPECT_TRUE(Retire("7").ok());
}

TEST_F(CoordinatorRetiredTest, ARollbackTakesThoseOfThen) {
  StartWithModel();
  ASSERT_TRUE(Retire("1").ok());
  ASSERT_TRUE(coordinator_->checkpoints().Take(progress_).ok());
  ASSERT_TRUE(Retire("2").ok());
  ASSERT_TRUE(coordinator_->checkpoints().Restore(1, progress_).ok());
  EXPECT_EQ(Registered(), "1");
}

}  // namespace
}  // namespace dslide::coordinator

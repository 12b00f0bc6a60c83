#include "client/cli/conformance/sequence_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dslide::cli {
namespace {

constexpr uint64_t kTopology = 5;
constexpr uint64_t kGeneration = 3;

class SequenceCheckTest : public ::testing::Test {
 protected:
  SequenceCheckTest() : check_(kTopology, verdicts_) {
    v1::HelloRequest hello;
    hello.set_job("job");
    hello.set_client_id(client_);
    check_.Greeted(0, hello, kGeneration);
  }

  Freshness Send(uint64_t sequence, const std::string& content, uint64_t current = kGeneration) {
    v1::RequestEnvelope envelope;
    envelope.set_job("job");
    envelope.set_client_id(client_);
    envelope.set_sequence(sequence);
    envelope.set_first_incomplete(sequence);
    envelope.set_generation(kGeneration);
    envelope.set_topology_version(kTopology);
    return check_.Look({.shard = 0,
                        .call = "Scatter",
                        .envelope = envelope,
                        .content = content,
                        .generation = current});
  }

  void Close() {
    v1::CloseClientRequest close;
    close.set_job("job");
    close.set_client_id(client_);
    check_.Closed(0, close);
  }

  // What was told of a chapter, "field: found" each.
  std::vector<std::string> Told(Chapter chapter) const {
    std::vector<std::string> told;
    const nlohmann::ordered_json json = verdicts_.Json();
    for (const auto& mistake : json["chapters"][static_cast<size_t>(chapter)]["mistakes"]) {
      told.push_back(mistake["field"].get<std::string>() + ": " +
                     mistake["found"].get<std::string>());
    }
    return told;
  }

  using Lines = std::vector<std::string>;
  const std::string client_ = std::string(16, 'c');
  Verdicts verdicts_{ChapterSet::All(), nullptr};
  SequenceCheck check_;
};

TEST_F(SequenceCheckTest, NumbersThatCountAreNewAndTheSameAgainIsARepetition) {
  EXPECT_EQ(Send(1, "a"), Freshness::kNew);
  EXPECT_EQ(Send(2, "b"), Freshness::kNew);
  EXPECT_EQ(Send(2, "b"), Freshness::kRepeated);
  EXPECT_EQ(Send(1, "a"), Freshness::kRepeated);
  Close();
  check_.Finish();
  EXPECT_EQ(Told(Chapter::kSequence), Lines());
  EXPECT_EQ(Told(Chapter::kRecovery), Lines());
}

TEST_F(SequenceCheckTest, AGapAndAnotherContentAreToldWithTheNumber) {
  EXPECT_EQ(Send(2, "a"), Freshness::kWrong);
  EXPECT_EQ(Told(Chapter::kSequence), Lines{"envelope.sequence: 2"});
  EXPECT_EQ(Send(3, "b"), Freshness::kNew);
  EXPECT_EQ(Send(3, "c"), Freshness::kWrong);
}

TEST_F(SequenceCheckTest, WhatWasLostComesAgainUnchanged) {
  Send(1, "a");
  check_.Lost(0, client_, 1);
  EXPECT_EQ(Send(1, "a"), Freshness::kRepeated);
  EXPECT_EQ(Told(Chapter::kRecovery), Lines());
}

TEST_F(SequenceCheckTest, ANewNumberForWhatWasLostWouldApplyItTwice) {
  Send(1, "a");
  check_.Lost(0, client_, 1);
  EXPECT_EQ(Send(2, "a"), Freshness::kWrong);
  EXPECT_EQ(Told(Chapter::kRecovery),
            Lines{"envelope.sequence: 2 with the content of 1, whose answer was lost: it would be "
                  "applied twice"});
}

TEST_F(SequenceCheckTest, AClientThatGoesOnWithoutAnAnswerIsTold) {
  Send(1, "a");
  check_.Lost(0, client_, 1);
  EXPECT_EQ(Send(2, "b"), Freshness::kWrong);
  EXPECT_EQ(Told(Chapter::kRecovery), Lines{"envelope.sequence: 2 although 1 has no answer"});
}

TEST_F(SequenceCheckTest, AnOldGenerationIsRefusedOnceAndToldTheSecondTime) {
  Send(1, "a");
  EXPECT_EQ(Send(2, "b", kGeneration + 1), Freshness::kNew);
  EXPECT_EQ(Told(Chapter::kRecovery), Lines());
  Send(2, "b", kGeneration + 1);
  EXPECT_EQ(Told(Chapter::kRecovery), Lines{"envelope.generation: 3 again after STALE_GENERATION"});
}

TEST_F(SequenceCheckTest, ConfirmsNoMoreThanWasAnswered) {
  v1::HelloRequest hello;
  hello.set_job("job");
  hello.set_client_id(client_);
  hello.set_acknowledged_sequence(1);
  Send(1, "a");
  check_.Greeted(0, hello, kGeneration);
  EXPECT_EQ(Told(Chapter::kSequence), Lines{"acknowledged_sequence: 1"});
}

TEST_F(SequenceCheckTest, AClientSaysGoodBye) {
  Send(1, "a");
  check_.Finish();
  EXPECT_EQ(Told(Chapter::kSequence), Lines{"client_id: never sent"});
}

TEST(VerdictsTest, OneKindOfMistakeIsToldOnceAndCounted) {
  std::vector<std::string> told;
  Verdicts verdicts(ChapterSet::All(),
                    [&](const Mistake& mistake) { told.push_back(Describe(mistake)); });
  const Mistake mistake{.chapter = Chapter::kTopK,
                        .call = "TopK",
                        .where = "shard 1",
                        .field = "k",
                        .found = "3",
                        .expected = "12",
                        .section = "prediction"};
  verdicts.Add(mistake);
  verdicts.Add(mistake);
  verdicts.Saw(Chapter::kGather);
  EXPECT_EQ(told, std::vector<std::string>{"TopK (shard 1): k is 3, must be 12; see "
                                           "docs/understand/wire.md#prediction"});
  const auto chapters = verdicts.Json()["chapters"];
  EXPECT_EQ(chapters[static_cast<size_t>(Chapter::kTopK)]["verdict"], "fail");
  EXPECT_EQ(chapters[static_cast<size_t>(Chapter::kTopK)]["mistakes"][0]["times"], 2);
  EXPECT_EQ(chapters[static_cast<size_t>(Chapter::kGather)]["verdict"], "pass");
  EXPECT_EQ(chapters[static_cast<size_t>(Chapter::kJobs)]["verdict"], "not seen");
  EXPECT_FALSE(verdicts.Passed());
}

}  // namespace
}  // namespace dslide::cli

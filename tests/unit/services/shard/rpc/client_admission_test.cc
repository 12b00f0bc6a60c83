#include "services/shard/rpc/client_admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "tests/unit/services/shard/sequencer/sequencer_fixture.h"

namespace dslide::shard {
namespace {

class ClientAdmissionTest : public ::testing::Test, protected SequencerParts {
 protected:
  void Make(bool knows_clients) {
    admission_ = std::make_unique<ClientAdmission>(&sequencer_, knows_clients);
  }
  // The reason why a greeting is refused; "" when it is answered.
  std::string Greeting() {
    std::string why = "no answer";
    Sequencer::Request request;
    request.command = trainer_.Hello();
    request.control = true;
    request.done = [&](const Answer& answer) { why = ReasonOf(answer.reply->status); };
    EXPECT_TRUE(sequencer_.Submit(std::move(request)).ok());
    sequencer_.RunOnce();
    return why;
  }

  Sequencer sequencer_{*core_, {.threads = false}, shard_metrics_, SteadyClock()};
  std::unique_ptr<ClientAdmission> admission_;
};

TEST_F(ClientAdmissionTest, NobodyIsGreetedBeforeTheShardHasItsGeneration) {
  Make(/*knows_clients=*/true);
  EXPECT_EQ(Greeting(), reason::kNotOwnedYet);
  admission_->OnHeartbeat(/*rollback_pending=*/false);
  EXPECT_EQ(Greeting(), reason::kNotOwnedYet);
  EXPECT_FALSE(admission_->waiting());
  admission_->OnOwned(/*rollback_pending=*/true);
  EXPECT_EQ(Greeting(), "") << "it knows them, and has nothing to wait for";
}

TEST_F(ClientAdmissionTest, WithoutRowsItWaitsForItsWayBack) {
  Make(/*knows_clients=*/false);
  admission_->OnOwned(/*rollback_pending=*/true);
  EXPECT_EQ(Greeting(), reason::kAwaitingRestore);
  EXPECT_TRUE(admission_->waiting());
  admission_->OnHeartbeat(/*rollback_pending=*/true);
  admission_->OnOwned(/*rollback_pending=*/true);  // another coordinator
  EXPECT_EQ(Greeting(), reason::kAwaitingRestore);
  admission_->OnRolledBack();
  EXPECT_EQ(Greeting(), "");
  admission_->OnHeartbeat(/*rollback_pending=*/true);
  admission_->OnOwned(/*rollback_pending=*/true);
  EXPECT_EQ(Greeting(), "") << "others have not gone back yet";
}

TEST_F(ClientAdmissionTest, WithoutRowsItWaitsUntilTheCoordinatorHasNothingToGoBackTo) {
  Make(/*knows_clients=*/false);
  admission_->OnOwned(/*rollback_pending=*/true);
  admission_->OnHeartbeat(/*rollback_pending=*/false);
  EXPECT_EQ(Greeting(), "");
}

// The coordinator may reach the shard before the shard has heard of its generation.
TEST_F(ClientAdmissionTest, TheWayBackMayComeBeforeTheGeneration) {
  Make(/*knows_clients=*/false);
  admission_->OnRolledBack();
  EXPECT_EQ(Greeting(), reason::kNotOwnedYet);
  admission_->OnOwned(/*rollback_pending=*/true);
  EXPECT_EQ(Greeting(), "");
}

}  // namespace
}  // namespace dslide::shard

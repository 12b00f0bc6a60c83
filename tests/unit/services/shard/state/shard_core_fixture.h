// A shard with the sample model and one client.

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "services/shard/state/shard_core.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {

class ShardCoreTest : public ::testing::Test {
 protected:
  Answer Do(Command command) { return core_->Apply(std::move(command)); }
  // Applies a step operation that must succeed.
  Answer Must(StepOp op, int64_t step) {
    Answer answer = Do(trainer_.Step(std::move(op), step));
    EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    return answer;
  }

  SampleTrainer trainer_;
  std::unique_ptr<ShardCore> core_ = SampleCore(trainer_);
};

}  // namespace dslide::shard

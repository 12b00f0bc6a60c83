// Equal commands give equal bits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"
#include "core/wire/arrays/array_codec.h"
#include "tests/unit/services/shard/state/shard_core_fixture.h"

namespace dslide::shard {
namespace {

// A run of several clients with all kinds of commands, some of them bad.
std::vector<Command> RandomCommands(int count, uint64_t seed, bool with_bad, int* bad_count) {
  SampleTrainer trainer(1, seed);
  CounterRng choice(seed);
  std::vector<Command> commands;
  int64_t step = 0;
  for (int i = 0; i < count; ++i) {
    if (choice.NextBelow(10) == 0) {
      // A bad command needs a sequence of its own, or the good ones behind it would differ.
      ScatterCommand bad = SampleTrainer(2, seed + i).Scatter(ScatterMode::kGradient);
      switch (choice.NextBelow(5)) {
        case 0:
          bad.rows.values[choice.NextBelow(8)] = std::numeric_limits<float>::quiet_NaN();
          break;
        case 1:
          bad.rows.values[choice.NextBelow(8)] = 3e38f;
          break;
        case 2:
          bad.rows.rows.back() = RowId(kSampleLabels + 1);
          break;
        case 3:
          bad.rows.rows[1] = bad.rows.rows[0];
          break;
        default:
          bad.rows.biases.pop_back();
          break;
      }
      bad.envelope.sequence = bad.envelope.first_incomplete = ++*bad_count;
      if (with_bad) commands.emplace_back(bad);
      continue;
    }
    switch (choice.NextBelow(6)) {
      case 0:
        commands.emplace_back(trainer.Scatter(ScatterMode::kGradient));
        break;
      case 1:
        commands.emplace_back(trainer.Scatter(ScatterMode::kAdd, "input"));
        break;
      case 2:
        commands.emplace_back(trainer.Step(trainer.DenseScatter(), ++step));
        break;
      case 3:
        commands.emplace_back(trainer.Scatter(ScatterMode::kAssign));
        break;
      default:
        ++step;
        commands.emplace_back(trainer.Step(trainer.EmbedForward(), step, step));
        commands.emplace_back(trainer.Step(trainer.HeadForward(), step, step));
        commands.emplace_back(trainer.Step(trainer.HeadBackward(), step, step));
        commands.emplace_back(trainer.Step(trainer.EmbedBackward(), step, step));
        break;
    }
  }
  return commands;
}

uint64_t DigestAfter(const std::vector<Command>& commands, int threads, int* refused) {
  const SampleTrainer first(1);
  const auto core = SampleCore(first, SampleOptions(threads));
  core->Apply(SampleTrainer(2).Hello());
  for (const Command& command : commands) {
    const Answer answer = core->Apply(command);
    if (!answer.reply->status.ok()) ++*refused;
  }
  return core->Digest();
}

TEST(ShardCoreDeterminismTest, TenThousandCommandsGiveTheDigestOfTheGoodOnes) {
  int bad = 0;
  const std::vector<Command> all = RandomCommands(10'000, 77, /*with_bad=*/true, &bad);
  int refused = 0;
  const uint64_t digest = DigestAfter(all, 1, &refused);
  EXPECT_GT(bad, 500);
  EXPECT_EQ(refused, bad) << "every bad command is refused, and no good one";
  int none = 0;
  int ignored = 0;
  const std::vector<Command> good = RandomCommands(10'000, 77, /*with_bad=*/false, &ignored);
  EXPECT_LT(good.size(), all.size());
  EXPECT_EQ(DigestAfter(good, 1, &none), digest);
  EXPECT_EQ(none, 0);
}

TEST(ShardCoreDeterminismTest, ThreadsDoNotChangeABit) {
  int bad = 0;
  const std::vector<Command> commands = RandomCommands(400, 3, /*with_bad=*/true, &bad);
  int refused = 0;
  const uint64_t digest = DigestAfter(commands, 1, &refused);
  EXPECT_EQ(DigestAfter(commands, 2, &refused), digest);
  EXPECT_EQ(DigestAfter(commands, 5, &refused), digest);
}

TEST(ShardCoreDeterminismTest, AReplayGivesEqualAnswersAndDigests) {
  int bad = 0;
  const std::vector<Command> commands = RandomCommands(300, 4, /*with_bad=*/true, &bad);
  const SampleTrainer first(1);
  const auto a = SampleCore(first);
  const auto b = SampleCore(first);
  a->Apply(SampleTrainer(2).Hello());
  b->Apply(SampleTrainer(2).Hello());
  for (const Command& command : commands) {
    const Answer one = a->Apply(command);
    const Answer two = b->Apply(command);
    ASSERT_EQ(one.reply->status, two.reply->status);
    if (const auto* head = std::get_if<HeadForwardReply>(&one.reply->body)) {
      const auto& other = std::get<HeadForwardReply>(two.reply->body);
      ASSERT_EQ(head->output.exp_sums, other.output.exp_sums);
      ASSERT_EQ(head->output.max_logits, other.output.max_logits);
    }
  }
  EXPECT_EQ(a->Digest(), b->Digest());
  EXPECT_EQ(a->contexts().bytes(), b->contexts().bytes());
}

}  // namespace
}  // namespace dslide::shard

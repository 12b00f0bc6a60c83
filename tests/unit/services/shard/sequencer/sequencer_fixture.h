// What a sequencer of the sample shard is made of.

#pragma once

#include <memory>

#include "core/net/metrics/metrics.h"
#include "services/shard/sequencer/sequencer.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {

class SequencerParts {
 protected:
  SampleTrainer trainer_;
  std::unique_ptr<ShardCore> core_ = SampleCore(trainer_);
  Metrics metrics_;
  StageTimes stages_{SteadyClock()};
  ShardMetrics shard_metrics_{metrics_, stages_};
};

}  // namespace dslide::shard

// The shard whose files are kept: a small model in every precision, and the commands that filled
// it. For generate_formats.cc and for tests that go on where a kept file ends. Changing it changes
// no kept file.

#pragma once

#include <vector>

#include "core/protocol/commands.h"
#include "core/spec/model_spec.h"
#include "services/shard/state/shard_core.h"

namespace dslide::golden {

ModelSpec GoldenModel();

// Fixed, whatever the defaults become.
shard::CoreLimits GoldenLimits();

// Every kind of command, in two halves: between them images are taken, with steps open. All are
// applied by shard 0 of two.
std::vector<Command> FirstCommands();
std::vector<Command> LaterCommands();

// Of a shard that has applied the first ones, or both.
std::vector<Command> ScatterToOneRow();
// A step that stays open, with explicit rows that have weights.
std::vector<Command> OpenWeightedStep();
// The first half for a model whose rows keep averages, by a trainer that weighs labels.
std::vector<Command> AveragedCommands();

}  // namespace dslide::golden

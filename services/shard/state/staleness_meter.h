// How old the weights are that gradients were computed with: updates of a model's head between a
// step's forward and its backward pass. A figure for people, beside the state machine.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/protocol/commands.h"

namespace dslide::shard {

// A head's forward or backward pass; nothing for other commands. Taken before the command is
// applied, which uses it up.
struct StepMark {
  std::string model;
  ClientId client = {};
  int64_t step = 0;
  bool backward = false;
};
std::optional<StepMark> MarkOf(const Command& command);

// Not thread-safe.
class StalenessMeter {
 public:
  // Forward passes that are remembered; the oldest are forgotten, their steps then count nothing.
  static constexpr size_t kMaxOpen = 4096;

  // A pass that succeeded. For a backward pass: the updates of that head since its forward pass;
  // nothing when that is not known.
  std::optional<int64_t> Applied(const StepMark& mark);

 private:
  using Key = std::pair<ClientId, int64_t>;

  std::map<std::string, int64_t> updates_;  // by model
  std::map<Key, int64_t> open_;             // updates when the forward pass ran
  std::deque<Key> order_;                   // of the forward passes; some are closed already
};

}  // namespace dslide::shard

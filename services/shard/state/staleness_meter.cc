#include "services/shard/state/staleness_meter.h"

#include <variant>

namespace dslide::shard {

std::optional<StepMark> MarkOf(const Command& command) {
  const auto* const step = std::get_if<StepCommand>(&command);
  if (step == nullptr) return std::nullopt;
  const bool backward = std::holds_alternative<HeadBackwardOp>(step->op);
  if (!backward && !std::holds_alternative<HeadForwardOp>(step->op)) return std::nullopt;
  return StepMark{step->envelope.model, step->envelope.client, step->step, backward};
}

std::optional<int64_t> StalenessMeter::Applied(const StepMark& mark) {
  const Key key(mark.client, mark.step);
  int64_t& updates = updates_[mark.model];
  if (!mark.backward) {
    if (open_.insert_or_assign(key, updates).second) order_.push_back(key);
    while (order_.size() > kMaxOpen) {
      open_.erase(order_.front());
      order_.pop_front();
    }
    return std::nullopt;
  }
  const int64_t now = updates++;
  const auto opened = open_.find(key);
  if (opened == open_.end()) return std::nullopt;
  const int64_t staleness = now - opened->second;
  open_.erase(opened);
  return staleness;
}

}  // namespace dslide::shard

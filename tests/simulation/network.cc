#include "tests/simulation/network.h"

#include <algorithm>

namespace dslide::simulation {

void Network::Send(const NodePtr& sender, const NodePtr& to, Lane* lane, bool is_reply,
                   std::function<void()> deliver) {
  if (!sender->alive() || (lane != nullptr && lane->broken)) return;
  const Place from = sender->place();
  if (cut_.contains({from, to->place()})) {
    trace_.Note(Fault::kPartitionedMessage, {from, to->place()});
    if (lane != nullptr) lane->broken = true;
    return;
  }
  if (rng_.NextUniform() < rates_.lose) {
    trace_.Note(is_reply ? Fault::kLostReply : Fault::kLostRequest, {from, to->place()});
    if (lane != nullptr) lane->broken = true;
    return;
  }
  absl::Duration pause = rates_.usual * (0.2 + rng_.NextUniform());
  if (rng_.NextUniform() < rates_.delay) {
    pause = rates_.longest * rng_.NextUniform();
    trace_.Note(Fault::kDelay, {from, to->place()});
  }
  absl::Duration arrival = loop_.Now() + pause;
  if (lane != nullptr) {
    arrival = std::max(arrival, lane->last);
    lane->last = arrival;
  } else {
    absl::Duration& last = last_call_[{from, to->place()}];
    if (arrival < last) trace_.Note(Fault::kReorder, {from, to->place()});
    last = std::max(last, arrival);
  }
  Node::After(to, arrival - loop_.Now(), std::move(deliver));
}

}  // namespace dslide::simulation

// One process of the simulated cluster, as far as it can be killed, paused and reached.

#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "tests/simulation/event_loop.h"

namespace dslide::simulation {

// Where processes live: what a partition separates. Shards from 0, the coordinator, then clients.
using Place = int;

// Shared by the process and by what is on its way to it. Not thread-safe.
class Node {
 public:
  Node(EventLoop& loop, Place place) : loop_(loop), place_(place) {}

  Place place() const { return place_; }
  bool alive() const { return alive_; }
  bool paused() const { return loop_.Now() < paused_until_; }
  void Kill() { alive_ = false; }
  void Pause(absl::Duration time) { paused_until_ = std::max(paused_until_, loop_.Now() + time); }

  // Runs `work` in the process after `pause`; a paused process does it later, a dead one never.
  static void After(const std::shared_ptr<Node>& node, absl::Duration pause,
                    std::function<void()> work) {
    node->loop_.After(pause, [node, work = std::move(work)]() mutable {
      if (!node->alive_) return;
      if (!node->paused() && node->late_.empty()) return work();
      node->late_.push_back(std::move(work));
      if (node->late_.size() == 1) WakeUp(node);
    });
  }

 private:
  // What came during a pause is done in the order in which it came, also when pauses overlap.
  static void WakeUp(const std::shared_ptr<Node>& node) {
    node->loop_.After(std::max(absl::ZeroDuration(), node->paused_until_ - node->loop_.Now()),
                      [node] {
                        if (!node->alive_) return;
                        if (node->paused()) return WakeUp(node);
                        std::deque<std::function<void()>> late;
                        late.swap(node->late_);
                        for (const auto& work : late) {
                          if (node->alive_) work();
                        }
                      });
  }

  EventLoop& loop_;
  const Place place_;
  bool alive_ = true;
  absl::Duration paused_until_ = -absl::InfiniteDuration();
  std::deque<std::function<void()>> late_;
};

}  // namespace dslide::simulation

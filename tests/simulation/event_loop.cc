#include "tests/simulation/event_loop.h"

#include <algorithm>
#include <utility>

namespace dslide::simulation {

void EventLoop::At(absl::Duration when, std::function<void()> event) {
  heap_.push_back({std::max(when, now_), next_number_++, std::move(event)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

bool EventLoop::RunUntil(absl::Duration end, absl::FunctionRef<bool()> done) {
  while (!done()) {
    if (heap_.empty() || heap_.front().when > end) {
      now_ = std::max(now_, end);
      return done();
    }
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    Entry entry = std::move(heap_.back());
    heap_.pop_back();
    now_ = entry.when;
    ++events_;
    entry.event();
  }
  return true;
}

}  // namespace dslide::simulation

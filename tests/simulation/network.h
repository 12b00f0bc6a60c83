// The network between the processes: it delays, overtakes, loses and separates.
//
// A lost message takes its connection with it, as TCP has it: whoever waits hears nothing more of
// it and gives up by a time limit of its own. Calls overtake each other; what is sent on one stream
// stays in order.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/time/time.h"
#include "core/base/counter_rng.h"
#include "tests/simulation/event_loop.h"
#include "tests/simulation/node.h"
#include "tests/simulation/trace.h"

namespace dslide::simulation {

using NodePtr = std::shared_ptr<Node>;  // shared: a message outlives the process that it is for

struct NetworkRates {
  double delay = 0;  // each of one message
  double lose = 0;
  absl::Duration usual = absl::Microseconds(300);
  absl::Duration longest = absl::Milliseconds(60);
};

// One direction of a stream.
struct Lane {
  bool broken = false;
  absl::Duration last = absl::ZeroDuration();  // arrival
};

// Not thread-safe.
class Network {
 public:
  // All outlive it.
  Network(EventLoop& loop, Trace& trace, uint64_t seed) : loop_(loop), trace_(trace), rng_(seed) {}

  void set_rates(const NetworkRates& rates) { rates_ = rates; }
  void Separate(Place from, Place to) { cut_.insert({from, to}); }
  void Heal(Place from, Place to) { cut_.erase({from, to}); }
  void HealAll() { cut_.clear(); }

  // Does `deliver` in the process, unless the message is lost. With a lane: after everything that
  // was sent on it before. `is_reply` is for the fault's name only.
  void Send(const NodePtr& sender, const NodePtr& to, Lane* lane, bool is_reply,
            std::function<void()> deliver);

  // One call. `handle` runs in the process `to` and answers once, later, by its argument; `done`
  // gets the answer, or nothing when none came in time: what became of the request is not known.
  template <typename Reply>
  void Call(const NodePtr& from, const NodePtr& to, absl::Duration timeout,
            std::function<void(std::function<void(Reply)>)> handle,
            std::function<void(std::optional<Reply>)> done) {
    auto finish = std::make_shared<std::function<void(std::optional<Reply>)>>(
        [done = std::move(done), over = false](std::optional<Reply> reply) mutable {
          if (std::exchange(over, true)) return;
          done(std::move(reply));
        });
    Node::After(from, timeout, [finish] { (*finish)(std::nullopt); });
    Send(from, to, nullptr, false, [this, from, to, finish, handle = std::move(handle)] {
      handle([this, from, to, finish](Reply reply) {
        Send(to, from, nullptr, true, [finish, reply = std::move(reply)] { (*finish)(reply); });
      });
    });
  }

 private:
  EventLoop& loop_;
  Trace& trace_;
  CounterRng rng_;
  NetworkRates rates_;
  std::set<std::pair<Place, Place>> cut_;
  std::map<std::pair<Place, Place>, absl::Duration> last_call_;  // arrival
};

}  // namespace dslide::simulation

// Accepts TCP connections for a server, at most so many at one time and from one address.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/listen_address.h"
#include "core/metrics/metrics.h"
#include "services/common/connection_rate.h"

namespace dslide {

struct ConnectionLimits {
  int64_t open = 256;      // at one time
  int64_t per_second = 0;  // of one address (ConnectionRate); 0: any number
};

// gRPC itself takes connections without end, and each costs memory before anybody has shown a
// certificate. So the sockets that listen are ours: a connection beyond a limit is closed at
// once, unread, and the others are handed over, each when its address has its turn.
//
// Of every connection a second descriptor is kept, which tells when both sides have shut it: its
// place is free then.
//
// Thread safety: safe from any thread.
class LimitedListener {
 public:
  // Takes over an accepted connection; called on the listener's thread.
  using Take = std::function<void(int listener_fd, int fd)>;

  // Binds every address of the host, but accepts nobody before Start(). `metrics` must outlive the
  // listener. Errors: those of CheckListenable; Unavailable when another process was faster.
  static absl::StatusOr<std::unique_ptr<LimitedListener>> Bind(const ListenAddress& address,
                                                               const ConnectionLimits& limits,
                                                               Metrics& metrics);
  // Stops.
  ~LimitedListener();
  LimitedListener(const LimitedListener&) = delete;
  LimitedListener& operator=(const LimitedListener&) = delete;

  // The port that was bound, also when the address said 0.
  int port() const { return port_; }

  // Accepts from now on. Once.
  void Start(Take take);

  // Accepts nobody any more; connections that were handed over stay. Repeated calls do nothing.
  void Stop();

  // After Stop(): ends the reading side of all connections that were handed over, as if their peers
  // had hung up. What is being sent to them is still sent.
  void HangUp();

 private:
  LimitedListener(const ConnectionLimits& limits, Metrics& metrics);
  absl::Status BindAll(const ListenAddress& address);
  void Run();
  void Accept(int listener);
  int Watch(int fd);
  void Forget(int watch);
  void HandOverDue();
  int MillisecondsToWait() const;

  const int64_t max_connections_;
  ConnectionRate rate_;  // of the thread
  const Counter refused_;
  const Counter throttled_;
  const Gauge open_;
  int port_ = 0;             // constant after Bind()
  std::set<int> listeners_;  // constant after Bind()
  Take take_;                // constant after Start()
  int epoll_ = -1;           // constant after Bind()
  int wake_ = -1;            // as above; readable when stopping
  std::set<int> watched_;    // of the thread; after Stop(), of its caller
  struct Waiting {
    int listener;
    int fd;
    int watch;  // in watched_, or -1
  };
  // Those whose turn has not come, by the time when it does; of the thread.
  std::multimap<absl::Duration, Waiting> waiting_;
  std::thread thread_;
};

}  // namespace dslide

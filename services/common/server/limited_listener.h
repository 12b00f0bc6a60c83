// Accepts TCP connections for a server, at most so many at one time and from one address.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"
#include "core/system/listen_address.h"
#include "services/common/server/connection_rate.h"

namespace dslide {

struct ConnectionLimits {
  int64_t open = 256;      // at one time
  int64_t per_second = 0;  // of one address (ConnectionRate); 0: any number
};

// gRPC itself takes connections without end, and each costs memory before anybody has shown a
// certificate. So the sockets that listen are ours: a connection beyond a limit is closed at
// once, unread, and the others are handed over, each when its address has a turn. Those that wait
// for one are at most kWaitSeconds' worth of each address, and are closed when they have waited so
// long.
//
// A connection over which something was received, but no call came that was permitted, was of no
// use: in its place the address loses turns (ConnectionRate). So strangers, whose handshakes fail,
// get few. Silent connections cost nothing, and so does whoever looks whether the port is open.
//
// Of every connection a second descriptor is kept, which tells when both sides have shut it: its
// place is free then.
//
// Thread safety: safe from any thread.
class LimitedListener {
 public:
  static constexpr int64_t kWaitSeconds = 4;
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

  // A call of this peer was permitted; `peer` as gRPC names it. From any thread, at any time.
  void NotePermitted(absl::string_view peer);

  // Accepts nobody any more; connections that were handed over stay. Repeated calls do nothing.
  void Stop();

  // After Stop(): ends the reading side of all connections that were handed over, as if their peers
  // had hung up. What is being sent to them is still sent.
  void HangUp();

 private:
  LimitedListener(const ConnectionLimits& limits, Metrics& metrics);
  absl::Status BindAll(const ListenAddress& address);
  void Run();
  // One connection that was accepted.
  struct Connection {
    std::string network;  // what stands for its address
    std::string name;     // of its peer, as gRPC says it
    bool handed_over = false;
  };
  struct Waiting {
    int listener;
    int fd;
    int watch;             // in watched_
    absl::Duration until;  // when it is closed
  };

  void Accept(int listener);
  // Hands over, lets wait, or closes.
  void Admit(int listener, int fd, Connection connection);
  // Makes it one of watched_, and returns its number there; -1 without a descriptor for that.
  int Watch(int fd, Connection connection);
  void Unwatch(int watch);
  // A connection is over.
  void End(int watch);
  bool WasOfUse(int watch, const Connection& connection);
  void HandOver(const Waiting& next);
  void HandOverDue();
  int MillisecondsToWait();

  const int64_t max_connections_;
  const size_t max_waiting_;  // of one address
  ConnectionRate rate_;       // of the thread
  const Counter refused_;
  const Counter throttled_;
  const Gauge open_;
  int port_ = 0;                       // constant after Bind()
  std::set<int> listeners_;            // constant after Bind()
  Take take_;                          // constant after Start()
  int epoll_ = -1;                     // constant after Bind()
  int wake_ = -1;                      // as above; readable when stopping
  std::map<int, Connection> watched_;  // of the thread; after Stop(), of its caller
  // Those whose turn has not come, by their address and in the order of their arrival.
  std::map<std::string, std::deque<Waiting>> waiting_;  // of the thread
  std::thread thread_;

  absl::Mutex mu_;
  // By the names of those in watched_: whether a call was permitted.
  absl::flat_hash_map<std::string, bool> permitted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide

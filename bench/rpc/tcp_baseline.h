// What the link carries without any protocol: plain TCP, the same payloads.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dslide::bench {

// Serves one connection after the other on a free port of 127.0.0.1, from a thread of its own,
// until the process ends.
class TcpBaselineServer {
 public:
  // Errors: Unavailable when there is no port.
  static absl::StatusOr<std::unique_ptr<TcpBaselineServer>> Start();
  int port() const { return port_; }

 private:
  explicit TcpBaselineServer(int listener) : listener_(listener) {}
  void Serve() const;

  const int listener_;
  int port_ = 0;
};

// A connection to it. Not thread-safe.
class TcpBaselineClient {
 public:
  static absl::StatusOr<std::unique_ptr<TcpBaselineClient>> Connect(int port);
  ~TcpBaselineClient();
  TcpBaselineClient(const TcpBaselineClient&) = delete;
  TcpBaselineClient& operator=(const TcpBaselineClient&) = delete;

  // Asks for `bytes` and reads them all. Errors: Unavailable when the connection breaks.
  absl::Status Fetch(int64_t bytes);

 private:
  explicit TcpBaselineClient(int socket) : socket_(socket) {}

  const int socket_;
};

}  // namespace dslide::bench

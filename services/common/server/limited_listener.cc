#include "services/common/server/limited_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>  // as netinet/tcp.h, and all of tcp_info
#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "services/common/server/transport.h"

namespace dslide {
namespace {

constexpr int kBindAttempts = 20;
constexpr absl::Duration kOutOfFilesPause = absl::Milliseconds(50);
// Turns come a little late: the last one who may wait has to see its own.
constexpr absl::Duration kWaitSlack = absl::Milliseconds(100);

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList Numeric(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) {
    found = nullptr;
  }
  return {found, &::freeaddrinfo};
}

// A socket that listens, or -1 with errno.
int Listen(const std::string& host, int port) {
  const AddressList address = Numeric(host, port);
  if (address == nullptr) {
    errno = EADDRNOTAVAIL;
    return -1;
  }
  const int fd = ::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  // A port in TIME_WAIT is free. Two listeners on one port stay impossible.
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->ai_family == AF_INET6) {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  if (::bind(fd, address->ai_addr, address->ai_addrlen) == 0 && ::listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

int PortOf(int fd) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

// What stands for a peer: its address, of IPv6 the half that names the network, of which a host may
// have all addresses.
std::string NetworkOf(const sockaddr_storage& peer) {
  if (peer.ss_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr;
    return {reinterpret_cast<const char*>(&address), sizeof(address) / 2};
  }
  const in_addr& address = reinterpret_cast<const sockaddr_in&>(peer).sin_addr;
  return {reinterpret_cast<const char*>(&address), sizeof(address)};
}

// A peer as gRPC names it: "ipv4:10.0.0.7:4711", "ipv6:%5Bfd00::7%5D:4711". One with a zone has
// another name there, and is not recognised.
std::string NameOf(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (peer.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(peer);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return absl::StrCat("ipv6:%5B", text.data(), "%5D:", ntohs(address.sin6_port));
  }
  const auto& address = reinterpret_cast<const sockaddr_in&>(peer);
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return absl::StrCat("ipv4:", text.data(), ":", ntohs(address.sin_port));
}

// Whether the peer has sent nothing; false when the system does not tell.
bool WasSilent(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return size >= offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received) &&
         info.tcpi_bytes_received == 0;
}

bool IsAbsentProtocol(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

void AddToEpoll(int epoll, int fd, uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

// As gRPC sets up what it accepts itself.
void SetUp(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const unsigned timeout = kKeepaliveTimeoutMs;
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

}  // namespace

LimitedListener::LimitedListener(const ConnectionLimits& limits, Metrics& metrics)
    : max_connections_(limits.open),
      max_waiting_(static_cast<size_t>(limits.per_second * kWaitSeconds)),
      rate_(limits.per_second),
      refused_(metrics.AddCounter("dslide_server_refused_connections_total",
                                  "Connections closed at once because --max-connections were "
                                  "open.")),
      throttled_(metrics.AddCounter("dslide_server_throttled_connections_total",
                                    "Connections closed because their address had opened more than "
                                    "--max-connection-rate allows.")),
      open_(metrics.AddGauge("dslide_server_connections", "Open connections over TCP.")),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

absl::StatusOr<std::unique_ptr<LimitedListener>> LimitedListener::Bind(
    const ListenAddress& address, const ConnectionLimits& limits, Metrics& metrics) {
  RETURN_IF_ERROR(CheckListenable(address));  // it tells best why not
  std::unique_ptr<LimitedListener> listener(new LimitedListener(limits, metrics));
  if (listener->epoll_ < 0 || listener->wake_ < 0) {
    return absl::UnavailableError("no file descriptors left to listen with");
  }
  RETURN_IF_ERROR(listener->BindAll(address));
  return listener;
}

absl::Status LimitedListener::BindAll(const ListenAddress& address) {
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ResolveHost(address));
  int error = 0;
  // With port 0 the first address chooses a port, which may be taken at the next one.
  for (int attempt = 0; attempt < (address.port == 0 ? kBindAttempts : 1); ++attempt) {
    port_ = address.port;
    error = 0;
    for (const std::string& host : hosts) {
      const int fd = Listen(host, port_);
      if (fd < 0 && IsAbsentProtocol(errno) && hosts.size() > 1) continue;
      if (fd < 0) {
        error = errno;
        break;
      }
      listeners_.insert(fd);
      port_ = PortOf(fd);
    }
    if (error == 0 && !listeners_.empty()) return absl::OkStatus();
    for (const int fd : listeners_) ::close(fd);
    listeners_.clear();
  }
  return absl::UnavailableError(absl::StrCat(
      "cannot listen on ", address.ToString(), ": ", std::strerror(error),
      ": the address was free a moment ago, so another process is probably starting there too"));
}

LimitedListener::~LimitedListener() {
  Stop();
  for (const int fd : listeners_) ::close(fd);  // of a listener that never started
  for (const auto& [fd, connection] : watched_) ::close(fd);
  if (epoll_ >= 0) ::close(epoll_);
  if (wake_ >= 0) ::close(wake_);
}

void LimitedListener::Start(Take take) {
  take_ = std::move(take);
  AddToEpoll(epoll_, wake_, EPOLLIN);
  for (const int fd : listeners_) AddToEpoll(epoll_, fd, EPOLLIN);
  thread_ = std::thread([this] { Run(); });
}

void LimitedListener::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof(one));
  thread_.join();
  for (const int fd : listeners_) ::close(fd);
  listeners_.clear();
  for (const auto& [network, waiting] : waiting_) {
    for (const Waiting& one : waiting) ::close(one.fd);
  }
  waiting_.clear();
  open_.Set(0);
}

void LimitedListener::HangUp() {
  for (const auto& [fd, connection] : watched_) ::shutdown(fd, SHUT_RD);
}

void LimitedListener::Run() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count =
        ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), MillisecondsToWait());
    // Places become free before somebody is refused for want of one.
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_) return;
      if (watched_.contains(fd)) End(fd);
    }
    open_.Set(static_cast<double>(watched_.size()));
    for (int i = 0; i < count; ++i) {
      if (listeners_.contains(events[i].data.fd)) Accept(events[i].data.fd);
    }
    HandOverDue();
  }
}

int LimitedListener::MillisecondsToWait() {
  if (waiting_.empty()) return -1;
  const absl::Duration now = SteadyClock().Now();
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [network, waiting] : waiting_) {  // none of them is empty here
    next = std::min({next, waiting.front().until, rate_.NextTurn(network, now)});
  }
  return static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(next - now) + 1));
}

void LimitedListener::HandOver(const Waiting& next) {
  watched_.at(next.watch).handed_over = true;
  take_(next.listener, next.fd);
}

void LimitedListener::HandOverDue() {
  const absl::Duration now = SteadyClock().Now();
  for (auto& [network, waiting] : waiting_) {
    for (; !waiting.empty(); waiting.pop_front()) {
      const Waiting& next = waiting.front();
      if (rate_.Take(network, now)) {
        HandOver(next);
      } else if (next.until <= now) {
        throttled_.Increment();
        ::close(next.fd);
        Unwatch(next.watch);
      } else {
        break;
      }
    }
  }
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
  open_.Set(static_cast<double>(watched_.size()));
}

void LimitedListener::Accept(int listener) {
  for (;;) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const int fd = ::accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && errno == EINTR) continue;
    if (fd < 0) {
      // Who waits is accepted as soon as there is a descriptor for it.
      if (errno == EMFILE || errno == ENFILE) absl::SleepFor(kOutOfFilesPause);
      return;
    }
    if (static_cast<int64_t>(watched_.size()) >= max_connections_) {
      ::close(fd);
      refused_.Increment();
      continue;
    }
    Admit(listener, fd, {.network = NetworkOf(peer), .name = NameOf(peer)});
  }
}

void LimitedListener::Admit(int listener, int fd, Connection connection) {
  const absl::Duration now = SteadyClock().Now();
  const std::string network = connection.network;
  const auto before = waiting_.find(network);
  const size_t ahead = before == waiting_.end() ? 0 : before->second.size();
  const bool at_once = ahead == 0 && rate_.Take(network, now);
  if (!at_once && ahead >= max_waiting_) {
    ::close(fd);
    throttled_.Increment();
    return;
  }
  const Waiting next{.listener = listener,
                     .fd = fd,
                     .watch = Watch(fd, std::move(connection)),
                     .until = now + absl::Seconds(kWaitSeconds) + kWaitSlack};
  if (next.watch < 0) {
    ::close(fd);
    refused_.Increment();
    return;
  }
  SetUp(fd);
  if (at_once) return HandOver(next);
  waiting_[network].push_back(next);
}

int LimitedListener::Watch(int fd, Connection connection) {
  const int watch = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (watch < 0) return watch;
  // No events but those that are always told: both sides are shut, or it is broken.
  AddToEpoll(epoll_, watch, 0);
  {
    const absl::MutexLock lock(&mu_);
    permitted_[connection.name] = false;
  }
  watched_.emplace(watch, std::move(connection));
  return watch;
}

void LimitedListener::Unwatch(int watch) {
  const auto found = watched_.find(watch);
  {
    const absl::MutexLock lock(&mu_);
    permitted_.erase(found->second.name);
  }
  watched_.erase(found);
  // By hand: while gRPC has its descriptor of the same socket, events of this one would go on.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, watch, nullptr);
  ::close(watch);
}

void LimitedListener::NotePermitted(absl::string_view peer) {
  const absl::MutexLock lock(&mu_);
  if (const auto known = permitted_.find(peer); known != permitted_.end()) known->second = true;
}

bool LimitedListener::WasOfUse(int watch, const Connection& connection) {
  {
    const absl::MutexLock lock(&mu_);
    const auto known = permitted_.find(connection.name);
    if (known != permitted_.end() && known->second) return true;
  }
  return WasSilent(watch);
}

void LimitedListener::End(int watch) {
  const Connection& connection = watched_.at(watch);
  if (connection.handed_over) {
    if (!WasOfUse(watch, connection)) rate_.Charge(connection.network, SteadyClock().Now());
  } else {
    // It was not handed over: nobody else would close it.
    std::erase_if(waiting_.at(connection.network), [&](const Waiting& one) {
      if (one.watch == watch) ::close(one.fd);
      return one.watch == watch;
    });
  }
  Unwatch(watch);
}

}  // namespace dslide

#include "client/cli/http_get.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// One request with the time that it may still take.
class Request {
 public:
  Request(std::string where, absl::Duration timeout)
      : where_(std::move(where)), timeout_(timeout), end_(SteadyClock().Now() + timeout) {}

  absl::Status Fail(const char* what, int error) const {
    return absl::UnavailableError(
        absl::StrCat(where_, ": ", what, ": ", std::strerror(error),
                     "; see whether the process runs and --admin is its admin address"));
  }

  // Waits until the socket can be read or written.
  absl::Status Wait(const Socket& socket, short events) const {  // NOLINT(google-runtime-int)
    for (;;) {
      const absl::Duration left = end_ - SteadyClock().Now();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(
            absl::StrCat(where_, " did not answer within ", absl::FormatDuration(timeout_)));
      }
      pollfd waited{.fd = socket.fd(), .events = events, .revents = 0};
      const int ready = ::poll(&waited, 1, static_cast<int>(absl::ToInt64Milliseconds(left) + 1));
      if (ready > 0) return absl::OkStatus();
      if (ready < 0 && errno != EINTR) return Fail("cannot wait", errno);
    }
  }

  absl::Status Connect(const Socket& socket, const addrinfo& address) const {
    if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) == 0) return absl::OkStatus();
    if (errno != EINPROGRESS) return Fail("cannot connect", errno);
    RETURN_IF_ERROR(Wait(socket, POLLOUT));
    int error = 0;
    socklen_t size = sizeof(error);
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 ? absl::OkStatus() : Fail("cannot connect", error);
  }

  absl::Status Send(const Socket& socket, absl::string_view text) const {
    while (!text.empty()) {
      RETURN_IF_ERROR(Wait(socket, POLLOUT));
      const ssize_t sent = ::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN && errno != EINTR) return Fail("cannot ask", errno);
      text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadAll(const Socket& socket) const {
    std::string answer;
    char buffer[4096];
    for (;;) {
      RETURN_IF_ERROR(Wait(socket, POLLIN));
      const ssize_t count = ::recv(socket.fd(), buffer, sizeof(buffer), 0);
      if (count == 0) return answer;
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (count < 0) return Fail("cannot read the answer", errno);
      answer.append(buffer, static_cast<size_t>(count));
      if (answer.size() > kMaxHttpAnswerBytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat(where_, " answers more than ", kMaxHttpAnswerBytes, " bytes"));
      }
    }
  }

 private:
  const std::string where_;
  const absl::Duration timeout_;
  const absl::Duration end_;  // of the steady clock
};

ListenAddress OnLoopback(ListenAddress address) {
  if (address.host.empty() || address.host == "0.0.0.0") address.host = "127.0.0.1";
  if (address.host == "::") address.host = "::1";
  return address;
}

}  // namespace

absl::StatusOr<HttpAnswer> ParseHttpAnswer(absl::string_view answer) {
  HttpAnswer parsed;
  // "HTTP/1.1 200 OK"
  const bool http = absl::StartsWith(answer, "HTTP/1.") && answer.size() >= 12 && answer[8] == ' ';
  if (!http || !absl::SimpleAtoi(answer.substr(9, 3), &parsed.code) || parsed.code < 100) {
    return absl::InvalidArgumentError(absl::StrCat("\"", EscapeForLog(answer, 40),
                                                   "\" is no answer of an HTTP server: is it the "
                                                   "gRPC port instead of the admin port?"));
  }
  const size_t end = answer.find("\r\n\r\n");
  if (end != absl::string_view::npos) parsed.body = std::string(answer.substr(end + 4));
  return parsed;
}

absl::StatusOr<HttpAnswer> HttpGet(const ListenAddress& address, absl::string_view path,
                                   absl::Duration timeout) {
  const ListenAddress asked = OnLoopback(address);
  const Request request(absl::StrCat("http://", asked.ToString(), path), timeout);
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ResolveHost(asked));
  absl::Status last = absl::UnavailableError(absl::StrCat(asked.ToString(), " has no address"));
  for (const std::string& host : hosts) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), absl::StrCat(asked.port).c_str(), &hints, &found) != 0)
      continue;
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
    const Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    last = request.Connect(socket, *found);
    if (!last.ok()) continue;
    RETURN_IF_ERROR(
        request.Send(socket, absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: ", asked.ToString(),
                                          "\r\nConnection: close\r\n\r\n")));
    ASSIGN_OR_RETURN(const std::string answer, request.ReadAll(socket));
    return ParseHttpAnswer(answer);
  }
  return last;
}

}  // namespace dslide::cli

#include "core/system/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

// Of the domain name system.
constexpr size_t kLongestName = 253;
constexpr size_t kLongestLabel = 63;

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Lookup(const ListenAddress& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int error = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), port.c_str(),
                                &hints, &found);
  if (error == EAI_AGAIN) {
    return absl::UnavailableError(
        absl::StrCat("the host \"", address.host, "\" cannot be looked up: ", gai_strerror(error)));
  }
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the host \"", address.host, "\" is unknown here: ", gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  if (address.sa_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
  }
  return false;
}

class Socket {
 public:
  explicit Socket(int family) : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

absl::Status BindError(const ListenAddress& address, int error) {
  const std::string where = address.ToString();
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        absl::StrCat("cannot listen on ", where,
                     ": another process listens there; stop it or choose another address"));
  }
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", where, ": ", std::strerror(error)));
}

absl::StatusOr<sockaddr_un> UnixName(const ListenAddress& address) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (address.path.size() >= sizeof(name.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the socket path ", address.path, " is longer than ", sizeof(name.sun_path) - 1, " bytes"));
  }
  std::memcpy(name.sun_path, address.path.data(), address.path.size());
  return name;
}

absl::Status CheckUnix(const ListenAddress& address) {
  ASSIGN_OR_RETURN(const sockaddr_un name, UnixName(address));
  const Socket socket(AF_UNIX);
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0) {
    return BindError(address, EADDRINUSE);
  }
  return absl::OkStatus();  // a file that nobody serves is left over from a crash: it is replaced
}

}  // namespace

absl::Status CheckHostName(absl::string_view host) {
  const auto refuse = [host](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", host, "\" is no host: ", why));
  };
  const std::string text(host);
  in6_addr bytes;
  if (absl::StrContains(text, ":")) {
    const std::string numeric = text.substr(0, text.find('%'));  // without the interface
    if (inet_pton(AF_INET6, numeric.c_str(), &bytes) == 1) return absl::OkStatus();
    return refuse("it looks like an IPv6 address and is none");
  }
  if (inet_pton(AF_INET, text.c_str(), &bytes) == 1) return absl::OkStatus();
  if (text.size() > kLongestName) return refuse("a name has at most 253 letters");
  const std::vector<std::string> labels = absl::StrSplit(absl::StripSuffix(text, "."), '.');
  for (const std::string& label : labels) {
    if (label.empty()) return refuse("a part of the name is empty");
    if (label.size() > kLongestLabel) {
      return refuse("a part of a name between dots has at most 63 letters");
    }
    const bool clean = std::all_of(label.begin(), label.end(), [](unsigned char c) {
      return absl::ascii_isalnum(c) || c == '-' || c == '_';
    });
    if (!clean || label.front() == '-' || label.back() == '-') {
      return refuse("names are made of letters, digits and -, with . between parts");
    }
  }
  if (std::all_of(labels.back().begin(), labels.back().end(), absl::ascii_isdigit)) {
    return refuse("it looks like an IPv4 address and is none");
  }
  return absl::OkStatus();
}

std::string ListenAddress::ToString() const {
  if (is_unix) return absl::StrCat("unix:", path);
  if (absl::StrContains(host, ":")) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  ListenAddress address;
  const auto malformed = [text] {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text,
        "\" is not an address; write for example 127.0.0.1:7000, [::1]:7000 or unix:/run/x.sock"));
  };
  if (absl::ConsumePrefix(&text, "unix:")) {
    address.is_unix = true;
    address.path = std::string(text);
    if (address.path.empty()) return malformed();
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return malformed();
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port = text.substr(colon + 1);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
    if (!absl::StrContains(host, ":")) return malformed();
  } else if (absl::StrContains(host, ":")) {
    return malformed();  // IPv6 without brackets: where the port begins would be a guess
  }
  if (port.empty() || port.size() > 5 || !absl::SimpleAtoi(port, &address.port) ||
      address.port < 0 || address.port > 65535) {
    return malformed();
  }
  if (!host.empty()) RETURN_IF_ERROR(CheckHostName(host));
  address.host = std::string(host);
  return address;
}

bool IsLocalOnly(const ListenAddress& address) {
  if (address.is_unix) return true;
  if (address.host.empty()) return false;
  const auto list = Lookup(address);
  if (!list.ok()) return false;
  for (const addrinfo* entry = list->get(); entry != nullptr; entry = entry->ai_next) {
    if (!IsLoopback(*entry->ai_addr)) return false;
  }
  return true;
}

absl::StatusOr<std::vector<std::string>> ResolveHost(const ListenAddress& address) {
  ASSIGN_OR_RETURN(const AddressList list, Lookup(address));
  std::vector<std::string> hosts;
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    char numeric[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, numeric, sizeof(numeric), nullptr, 0,
                    NI_NUMERICHOST) == 0 &&
        std::find(hosts.begin(), hosts.end(), numeric) == hosts.end()) {
      hosts.emplace_back(numeric);
    }
  }
  return hosts;
}

absl::Status CheckListenable(const ListenAddress& address) {
  if (address.is_unix) return CheckUnix(address);
  ASSIGN_OR_RETURN(const AddressList list, Lookup(address));
  for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
    const Socket socket(entry->ai_family);
    if (socket.fd() < 0) continue;  // this machine has no such protocol
    const int on = 1;
    // As servers do: a port in TIME_WAIT is free. It does not allow two listeners on one port.
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (entry->ai_family == AF_INET6) {
      ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (::bind(socket.fd(), entry->ai_addr, entry->ai_addrlen) != 0 ||
        ::listen(socket.fd(), 1) != 0) {
      // A host that has IPv6 compiled in but switched off cannot be bound there, and is not asked
      // to.
      if (errno == EADDRNOTAVAIL && entry->ai_family == AF_INET6 && list->ai_next != nullptr) {
        continue;
      }
      return BindError(address, errno);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAnswers(const ListenAddress& address) {
  if (address.is_unix) {
    ASSIGN_OR_RETURN(const sockaddr_un name, UnixName(address));
    const Socket socket(AF_UNIX);
    if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0) {
      return absl::OkStatus();
    }
  } else {
    ASSIGN_OR_RETURN(const AddressList list, Lookup(address));
    for (const addrinfo* entry = list.get(); entry != nullptr; entry = entry->ai_next) {
      const Socket socket(entry->ai_family);
      if (::connect(socket.fd(), entry->ai_addr, entry->ai_addrlen) == 0) return absl::OkStatus();
    }
  }
  return absl::UnavailableError(
      absl::StrCat("nobody answers on ", address.ToString(), ": ", std::strerror(errno)));
}

}  // namespace dslide

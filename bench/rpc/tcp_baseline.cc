#include "bench/rpc/tcp_baseline.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dslide::bench {
namespace {

constexpr int64_t kBlockBytes = 1 << 20;
// As much memory as a large gather touches.
constexpr int64_t kBlocks = 64;

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

absl::Status Failed(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Reads or writes exactly `bytes`; false when the connection ends first.
bool ReadAll(int socket, char* data, int64_t bytes) {
  while (bytes > 0) {
    const ssize_t got = recv(socket, data, static_cast<size_t>(bytes), 0);
    if (got <= 0) return false;
    data += got;
    bytes -= got;
  }
  return true;
}

bool WriteAll(int socket, const char* data, int64_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = send(socket, data, static_cast<size_t>(bytes), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    bytes -= sent;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpBaselineServer>> TcpBaselineServer::Start() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 4) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Failed("cannot listen on 127.0.0.1");
  }
  std::unique_ptr<TcpBaselineServer> server(new TcpBaselineServer(listener));
  server->port_ = ntohs(address.sin_port);
  std::thread([peer = server.get()] { peer->Serve(); }).detach();
  return server;
}

void TcpBaselineServer::Serve() const {
  const std::vector<char> memory(kBlocks * kBlockBytes, 'x');
  for (;;) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    int64_t wanted = 0;
    while (ReadAll(connection, reinterpret_cast<char*>(&wanted), sizeof(wanted))) {
      bool good = true;
      for (int64_t block = 0; good && wanted > 0; ++block) {
        const int64_t size = std::min(wanted, kBlockBytes);
        good = WriteAll(connection, memory.data() + block % kBlocks * kBlockBytes, size);
        wanted -= size;
      }
      if (!good) break;
    }
    close(connection);
  }
}

absl::StatusOr<std::unique_ptr<TcpBaselineClient>> TcpBaselineClient::Connect(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(port);
  if (connection < 0 ||
      connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Failed("cannot connect");
  }
  const int one = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  return std::unique_ptr<TcpBaselineClient>(new TcpBaselineClient(connection));
}

TcpBaselineClient::~TcpBaselineClient() { close(socket_); }

absl::Status TcpBaselineClient::Fetch(int64_t bytes) {
  static std::vector<char>* const memory = new std::vector<char>(kBlocks * kBlockBytes);
  if (!WriteAll(socket_, reinterpret_cast<const char*>(&bytes), sizeof(bytes))) {
    return Failed("cannot write");
  }
  for (int64_t block = 0; bytes > 0; ++block) {
    const int64_t size = std::min(bytes, kBlockBytes);
    if (!ReadAll(socket_, memory->data() + block % kBlocks * kBlockBytes, size)) {
      return Failed("cannot read");
    }
    bytes -= size;
  }
  return absl::OkStatus();
}

}  // namespace dslide::bench

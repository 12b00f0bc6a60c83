#include "core/system/listen_address.h"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <string>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

TEST(ListenAddressTest, FormsAreRead) {
  const auto v4 = ParseListenAddress("127.0.0.1:7000");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 7000);
  const auto v6 = ParseListenAddress("[::1]:0");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->ToString(), "[::1]:0");
  const auto any = ParseListenAddress(":7000");
  ASSERT_TRUE(any.ok());
  EXPECT_EQ(any->host, "");
  const auto path = ParseListenAddress("unix:/run/x.sock");
  ASSERT_TRUE(path.ok());
  EXPECT_TRUE(path->is_unix);
  EXPECT_EQ(path->ToString(), "unix:/run/x.sock");
}

TEST(ListenAddressTest, OtherFormsAreRefused) {
  for (const char* text : {"", "7000", "host", "host:", "host:x", "host:70000", "host:-1",
                           "unix:", "::1:7000", "[x]:7", "host:000080", " 127.0.0.1:7000",
                           "10.0.0.300:7000", "a..b:7000", "[1::2::3]:7000"}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
}

TEST(ListenAddressTest, HostsThatCannotExistAreRefused) {
  for (const char* host : {"a", "a-1.example", "a_b.svc.cluster.local.", "127.0.0.1", "::1",
                           "fe80::1%eth0", "1and1.example"}) {
    EXPECT_TRUE(CheckHostName(host).ok()) << host;
  }
  const std::string long_label(64, 'a');
  const std::string long_name = std::string(63, 'a') + "." + std::string(63, 'b') + "." +
                                std::string(63, 'c') + "." + std::string(63, 'd');
  for (const std::string& host :
       {std::string("10.0.0.300"), std::string("127.1"), std::string("1.2.3.4.5"),
        std::string("a..b"), std::string(".a"), std::string("a b"), std::string("-a"),
        std::string("a-.b"), std::string("1::2::3"), std::string("a/b"), long_label, long_name}) {
    EXPECT_FALSE(CheckHostName(host).ok()) << host;
  }
}

TEST(ListenAddressTest, OnlyLoopbackIsLocal) {
  for (const char* text : {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "unix:/x"}) {
    EXPECT_TRUE(IsLocalOnly(*ParseListenAddress(text))) << text;
  }
  for (const char* text : {"0.0.0.0:1", ":1", "[::]:1", "192.0.2.1:1", "no-such-host.invalid:1"}) {
    EXPECT_FALSE(IsLocalOnly(*ParseListenAddress(text))) << text;
  }
}

TEST(ListenAddressTest, ATakenPortIsFound) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t size = sizeof(name);
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size), 0);
  const int port = ntohs(name.sin_port);
  for (const char* host : {"127.0.0.1", "0.0.0.0", "localhost", ""}) {
    const auto status = CheckListenable(*ParseListenAddress(absl::StrCat(host, ":", port)));
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << host << " " << status;
  }
  ::close(fd);
  EXPECT_TRUE(CheckListenable(*ParseListenAddress(absl::StrCat("127.0.0.1:", port))).ok());
}

TEST(ListenAddressTest, AForeignAddressCannotBeListenedOn) {
  const auto status = CheckListenable(*ParseListenAddress("192.0.2.1:7000"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

}  // namespace
}  // namespace dslide

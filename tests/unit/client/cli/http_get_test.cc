#include "client/cli/http_get.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "client/cli/command_line.h"
#include "client/cli/exit_codes.h"

namespace dslide::cli {
namespace {

using ::testing::HasSubstr;

// Answers one connection with `answer` and hangs up, or holds the line.
class OneAnswer {
 public:
  OneAnswer(std::string answer, bool hang_up) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, hang_up, answer = std::move(answer)] {
      const int fd = ::accept(listener_, nullptr, nullptr);
      char buffer[1024];
      request_.assign(buffer, static_cast<size_t>(::recv(fd, buffer, sizeof(buffer), 0)));
      for (size_t sent = 0; sent < answer.size();) {
        const ssize_t count = ::send(fd, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) break;
        sent += static_cast<size_t>(count);
      }
      // Until the client hangs up.
      while (!hang_up && ::recv(fd, buffer, sizeof(buffer), 0) > 0) {
      }
      ::close(fd);
    });
  }
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  ListenAddress address() const {
    ListenAddress address;
    address.host = "127.0.0.1";
    address.port = port_;
    return address;
  }
  const std::string& Request() {
    thread_.join();
    return request_;
  }

 private:
  const int listener_;
  int port_ = 0;
  std::string request_;
  std::thread thread_;
};

TEST(HttpGetTest, ReadsCodeAndBodyOfAnAnswer) {
  OneAnswer server("HTTP/1.1 503 Service Unavailable\r\nX: y\r\n\r\nnot ready: draining\n", true);
  const auto answer = HttpGet(server.address(), "/readyz", absl::Seconds(10));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->code, 503);
  EXPECT_EQ(answer->body, "not ready: draining\n");
  EXPECT_THAT(server.Request(), ::testing::StartsWith("GET /readyz HTTP/1.1\r\nHost: 127.0.0.1:"));
}

TEST(HttpGetTest, AnAddressOfEveryInterfaceIsAskedOnLoopback) {
  for (const std::string host : {"", "0.0.0.0"}) {
    OneAnswer server("HTTP/1.0 200 OK\r\n\r\nok", true);
    ListenAddress address = server.address();
    address.host = host;
    const auto answer = HttpGet(address, "/", absl::Seconds(10));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->code, 200);
  }
}

TEST(HttpGetTest, WhoeverHoldsTheLineIsGivenUpAfterTheTimeout) {
  OneAnswer server("HTTP/1.1 200 OK\r\n", false);
  EXPECT_EQ(HttpGet(server.address(), "/", absl::Milliseconds(100)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(HttpGetTest, AnAnswerWithoutEndIsGivenUp) {
  OneAnswer server("HTTP/1.1 200 OK\r\n\r\n" + std::string(2 * kMaxHttpAnswerBytes, 'x'), true);
  EXPECT_EQ(HttpGet(server.address(), "/", absl::Seconds(30)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(HttpGetTest, NobodyThereIsUnavailable) {
  ListenAddress address;
  {
    OneAnswer server("", true);
    address = server.address();
    HttpGet(address, "/", absl::Seconds(10)).IgnoreError();
  }
  const auto answer = HttpGet(address, "/", absl::Seconds(10));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("--admin"));
}

TEST(HttpGetTest, WhatIsNoHttpIsRefused) {
  for (const char* text : {"", "HTTP/1.1", "HTTP/1.1 abc", "HTTP/2 200 OK    ", "SSH-2.0-x 200 ok",
                           "HTTP/1.1 099 x"}) {
    EXPECT_EQ(ParseHttpAnswer(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(ParseHttpAnswer("HTTP/1.1 204 No Content")->body, "");
}

TEST(HealthCommandTest, TheExitCodeSaysWhetherTheServerIsReady) {
  const auto run = [](const std::string& answer) {
    OneAnswer server(answer, true);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = RunCommandLine(
        {"health", "--admin", server.address().ToString(), "--live", "--timeout", "10s"});
    const std::string said =
        testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
    EXPECT_THAT(server.Request(), ::testing::StartsWith("GET /livez "));
    return std::make_pair(code, said);
  };
  const auto [ready, yes] = run("HTTP/1.1 200 OK\r\n\r\nok\n");
  EXPECT_EQ(ready, kExitOk);
  EXPECT_EQ(yes, "ok\n");
  const auto [waiting, no] = run("HTTP/1.1 503 Service Unavailable\r\n\r\nnot ready: x\n");
  EXPECT_EQ(waiting, kExitFailure);
  EXPECT_THAT(no, HasSubstr("not ready: x"));
}

}  // namespace
}  // namespace dslide::cli

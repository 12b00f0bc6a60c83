#include "core/net/http/admin_http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/net/http/http_get.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class AdminHttpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    metrics_.AddCounter("dslide_test_calls_total", "Calls.").Increment(7);
    auto server =
        AdminHttpServer::Start({.address = "127.0.0.1:0",
                                .title = "dslide-test",
                                .metrics = {&metrics_},
                                .readiness =
                                    [this] {
                                      return Readiness{ready_.load(), "the <disk> is slow"};
                                    },
                                .status =
                                    [] {
                                      StatusPage page;
                                      page.facts = {{"Shards", "2 & counting"}};
                                      return page;
                                    }});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_GT(server_->port(), 0);
  }

  Metrics metrics_;
  std::atomic<bool> ready_ = true;
  std::unique_ptr<AdminHttpServer> server_;
};

TEST_F(AdminHttpTest, MetricsPageShowsTheRegistry) {
  const std::string answer = HttpGet(server_->port(), "/metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("dslide_test_calls_total 7\n"));
}

TEST_F(AdminHttpTest, LiveIsIndependentOfReady) {
  EXPECT_THAT(HttpGet(server_->port(), "/readyz"), StartsWith("HTTP/1.1 200"));
  ready_ = false;
  EXPECT_THAT(HttpGet(server_->port(), "/livez"), StartsWith("HTTP/1.1 200"));
  const std::string answer = HttpGet(server_->port(), "/readyz");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(answer, HasSubstr("not ready: the <disk> is slow\n"));
}

TEST_F(AdminHttpTest, ThePageForPeopleIsEscaped) {
  ready_ = false;
  const std::string answer = HttpGet(server_->port(), "/");
  EXPECT_THAT(answer, HasSubstr("text/html"));
  EXPECT_THAT(answer, HasSubstr("2 &amp; counting"));
  EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(answer, HasSubstr("the &lt;disk&gt; is slow"));
}

TEST_F(AdminHttpTest, OtherPathsAndMethodsAreRefused) {
  EXPECT_THAT(HttpGet(server_->port(), "/etc/passwd"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(HttpGet(server_->port(), "/../../etc/passwd"), Not(HasSubstr("root:")));
  const std::string answer = HttpRequest(
      server_->port(), "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 405"));
  const std::string head =
      HttpRequest(server_->port(), "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(head, Not(HasSubstr("dslide_test_calls_total")));
}

TEST_F(AdminHttpTest, ATakenPortIsAnErrorThatNamesIt) {
  const std::string address = absl::StrCat("127.0.0.1:", server_->port());
  EXPECT_EQ(server_->address(), address);
  const auto second = AdminHttpServer::Start({.address = address, .title = "second"});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

TEST_F(AdminHttpTest, APortIsFreeAgainAfterTheServer) {
  const std::string address = server_->address();
  server_.reset();
  const auto again = AdminHttpServer::Start({.address = address, .title = "again"});
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST(AdminHttpAddressTest, MalformedAddressesAreRefused) {
  for (const char* address : {"", "7001", "host", "127.0.0.1:99999", "unix:/x", "::1:7001"}) {
    const auto server = AdminHttpServer::Start({.address = address, .title = "x"});
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace dslide

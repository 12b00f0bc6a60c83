#include "core/net/http/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "core/net/http/admin_http.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

TEST(HttpClientTest, GetsWhatTheAdminPageServes) {
  Metrics metrics;
  for (int i = 0; i < 2000; ++i) {  // several reads long
    metrics.AddCounter("long_total", "Long.", {{"i", absl::StrCat(i)}}).Increment(i);
  }
  const auto server =
      AdminHttpServer::Start({.address = "127.0.0.1:0", .title = "t", .metrics = {&metrics}});
  ASSERT_TRUE(server.ok()) << server.status();
  for (const char* host : {"127.0.0.1", "0.0.0.0", ""}) {
    const auto answer =
        HttpGetPage(absl::StrCat(host, ":", (*server)->port()), "/metrics", kPatience);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->code, 200);
    EXPECT_THAT(answer->body, HasSubstr("long_total{i=\"1999\"} 1999\n"));
  }
  EXPECT_EQ(HttpGetPage((*server)->address(), "/nothing", kPatience)->code, 404);
}

TEST(HttpClientTest, NobodyThereIsUnavailableAndNamed) {
  Metrics metrics;
  auto server =
      AdminHttpServer::Start({.address = "127.0.0.1:0", .title = "t", .metrics = {&metrics}});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  server->reset();
  const auto answer = HttpGetPage(address, "/metrics", absl::Seconds(1));
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr(address));
}

TEST(HttpClientTest, MalformedAddressesAreRefused) {
  for (const char* address : {"7001", "host:0", "unix:/x", ""}) {
    EXPECT_TRUE(absl::IsInvalidArgument(HttpGetPage(address, "/", absl::Seconds(1)).status()))
        << address;
  }
}

}  // namespace
}  // namespace dslide

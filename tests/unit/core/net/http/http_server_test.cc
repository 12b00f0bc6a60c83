#include "core/net/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/net/http/http_get.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  // Says what it was asked.
  void Start(int64_t max_body_bytes) {
    auto server = HttpServer::Start(
        {.address = "127.0.0.1:0",
         .name = "test",
         .handle =
             [](const HttpCall& call) {
               return HttpReply{.body = absl::StrCat(call.method, " ", call.path, " ", call.body,
                                                     " ", call.header("x-color")),
                                .headers = {{"X-Extra", "yes"}}};
             },
         .max_body_bytes = max_body_bytes,
         .keep_alive = true});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  std::string Ask(const std::string& head, const std::string& body = "") {
    return HttpRequest(server_->port(), absl::StrCat(head, "\r\nHost: x\r\nConnection: close\r\n",
                                                     "X-Color: red\r\n\r\n", body));
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, TheHandlerSeesTheWholeRequest) {
  Start(8);
  EXPECT_THAT(Ask("POST /a%20b?c=d HTTP/1.1\r\nContent-Length: 8", "12345678"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("X-Extra: yes\r\n"),
                    EndsWith("POST /a b 12345678 red")));
  EXPECT_THAT(Ask("HEAD / HTTP/1.1"),
              AllOf(HasSubstr("Content-Length: 11\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpServerTest, BodiesThatAreTooLongOrOfNoLengthAreRefused) {
  Start(8);
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nContent-Length: 9", "123456789"),
              AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("9 bytes, more than 8")));
  EXPECT_THAT(Ask("POST / HTTP/1.1"), StartsWith("HTTP/1.1 411 "));
}

TEST_F(HttpServerTest, WithoutALimitABodyIsNotRead) {
  Start(0);
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nContent-Length: 3", "abc"), EndsWith("POST /  red"));
}

TEST_F(HttpServerTest, AConnectionServesSeveralRequests) {
  Start(8);
  const std::string two = HttpRequest(
      server_->port(),
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(two, AllOf(HasSubstr("GET /1"), HasSubstr("GET /2")));
}

}  // namespace
}  // namespace dslide

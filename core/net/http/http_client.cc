#include "core/net/http/http_client.h"

#include <civetweb.h>

#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/listen_address.h"

namespace dslide {
namespace {

constexpr size_t kMaxBody = size_t{16} << 20;

struct Closer {
  void operator()(mg_connection* connection) const { mg_close_connection(connection); }
};

std::string Reachable(const std::string& host) {
  if (host.empty() || host == "0.0.0.0") return "127.0.0.1";
  return host == "::" ? "::1" : host;
}

absl::Status NoAnswer(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("no answer from the admin page at ", address, ": ",
                                             why, "; is that the process's --admin address?"));
}

}  // namespace

absl::StatusOr<HttpAnswer> HttpGetPage(const std::string& address, const std::string& path,
                                       absl::Duration timeout) {
  ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListenAddress(address));
  if (parsed.is_unix || parsed.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the admin address ", address, " must be host:port"));
  }
  static const unsigned library = mg_init_library(0);  // reference counted, once is enough
  (void)library;
  const std::string host = Reachable(parsed.host);
  char error[256] = "";
  const std::unique_ptr<mg_connection, Closer> connection(
      mg_connect_client(host.c_str(), parsed.port, /*use_ssl=*/0, error, sizeof(error)));
  if (connection == nullptr) return NoAnswer(address, error);
  const std::string request = absl::StrCat(
      "GET ", path, " HTTP/1.1\r\nHost: ", absl::StrContains(host, ':') ? "[" : "", host,
      absl::StrContains(host, ':') ? "]" : "", ":", parsed.port, "\r\nConnection: close\r\n\r\n");
  mg_write(connection.get(), request.data(), request.size());
  if (mg_get_response(connection.get(), error, sizeof(error),
                      static_cast<int>(absl::ToInt64Milliseconds(timeout))) < 0) {
    return NoAnswer(address, error);
  }
  HttpAnswer answer;
  answer.code = mg_get_response_info(connection.get())->status_code;
  char buffer[16384];
  for (int read = 0; (read = mg_read(connection.get(), buffer, sizeof(buffer))) > 0;) {
    answer.body.append(buffer, static_cast<size_t>(read));
    if (answer.body.size() > kMaxBody) return NoAnswer(address, "the page is over 16 MiB");
  }
  return answer;
}

}  // namespace dslide

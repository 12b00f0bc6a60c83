#include "core/net/http/http_server.h"

#include <civetweb.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/status_macros.h"
#include "core/system/listen_address.h"
#include "core/system/log.h"

namespace dslide {
namespace {

constexpr unsigned kFeatureIpv6 = 8;  // MG_FEATURES_IPV6

const char* ReasonPhrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 429:
      return "Too Many Requests";
    case 504:
      return "Gateway Timeout";
    default:
      return code < 503 ? "Error" : "Service Unavailable";
  }
}

// The library's addresses for one of ours: every address of the host, or the first one for port 0,
// which has to be one port.
absl::StatusOr<std::string> ListeningPorts(const ListenAddress& address) {
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ResolveHost(address));
  std::vector<std::string> ports;
  for (const std::string& host : hosts) {
    const bool v6 = absl::StrContains(host, ":");
    if (v6 && (mg_check_feature(kFeatureIpv6) == 0)) continue;
    ports.push_back(v6 ? absl::StrCat("[", host, "]:", address.port)
                       : absl::StrCat(host, ":", address.port));
    if (address.port == 0) break;
  }
  return absl::StrJoin(ports, ",");
}

int LogMessage(const mg_connection*, const char* message) {
  LogWarning("http", {{"message", message}});
  return 1;  // handled
}

// Reads what the request says that it has. False: the connection broke.
bool ReadBody(mg_connection* connection, int64_t size, std::string& body) {
  body.resize(static_cast<size_t>(size));
  size_t have = 0;
  while (have < body.size()) {
    const int got = mg_read(connection, body.data() + have, body.size() - have);
    if (got <= 0) return false;
    have += static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

struct HttpServer::Impl {
  static int Handle(mg_connection* connection, void* impl);
  // Also refuses bodies; *close: what the connection still brings is no request.
  HttpReply Answer(mg_connection* connection, bool* close) const;

  HttpServerOptions options;     // constant after construction
  ListenAddress listen;          // constant after construction
  mg_context* server = nullptr;  // self-synchronised
};

HttpReply HttpServer::Impl::Answer(mg_connection* connection, bool* close) const {
  const mg_request_info& info = *mg_get_request_info(connection);
  HttpCall request;
  request.method = info.request_method;
  request.path = info.local_uri;
  request.header = [connection](const char* name) -> std::string {
    const char* const value = mg_get_header(connection, name);
    return value == nullptr ? "" : value;
  };
  *close = true;
  if (options.max_body_bytes > 0) {
    if (info.content_length < 0 && request.method == "POST") {
      return {.code = 411, .body = "say how long the body is: Content-Length\n"};
    }
    if (info.content_length > options.max_body_bytes) {
      return {.code = 413,
              .body = absl::StrCat("the body has ", info.content_length, " bytes, more than ",
                                   options.max_body_bytes, ": send fewer queries\n")};
    }
    if (!ReadBody(connection, std::max<int64_t>(0, info.content_length), request.body)) {
      return {.code = 400, .body = "the body is shorter than its Content-Length\n"};
    }
    *close = false;
  }
  return options.handle(request);
}

int HttpServer::Impl::Handle(mg_connection* connection, void* impl) {
  const Impl& self = *static_cast<const Impl*>(impl);
  bool close = true;
  const HttpReply reply = self.Answer(connection, &close);
  const bool keep = self.options.keep_alive && !close;
  std::string head =
      absl::StrCat("HTTP/1.1 ", reply.code, " ", ReasonPhrase(reply.code),
                   "\r\nContent-Type: ", reply.type, "\r\nContent-Length: ", reply.body.size(),
                   "\r\nCache-Control: no-store\r\n"
                   "X-Content-Type-Options: nosniff\r\n");
  for (const auto& [name, value] : reply.headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
  absl::StrAppend(&head, keep ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
  const bool with_body = std::strcmp(mg_get_request_info(connection)->request_method, "HEAD") != 0;
  // One write, so that a small answer is one packet.
  if (with_body) head += reply.body;
  mg_write(connection, head.data(), head.size());
  if (!keep) mg_disable_connection_keep_alive(connection);
  return reply.code;
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  ASSIGN_OR_RETURN(ListenAddress listen, ParseListenAddress(options.address));
  if (listen.is_unix) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", options.name, " address ", options.address, " must be host:port"));
  }
  if (listen.port != 0) RETURN_IF_ERROR(CheckListenable(listen));
  static const unsigned library = mg_init_library(0);  // reference counted, once is enough
  (void)library;
  ASSIGN_OR_RETURN(const std::string ports, ListeningPorts(listen));

  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->listen = std::move(listen);
  const std::string threads = absl::StrCat(impl->options.threads);
  const char* settings[] = {"listening_ports", ports.c_str(), "num_threads", threads.c_str(),
                            "request_timeout_ms", "5000", "enable_keep_alive",
                            impl->options.keep_alive ? "yes" : "no",
                            // Answers are small and whole: waiting for more to send is only delay.
                            "tcp_nodelay", "1", nullptr};
  mg_callbacks callbacks{};
  callbacks.log_message = LogMessage;
  mg_init_data init{&callbacks, impl.get(), settings};
  unsigned error_code = 0;
  char error_text[256] = "";
  mg_error_data error{};
  // A number since civetweb 1.16, before that a pointer to one.
  [&error_code](auto& data) {
    if constexpr (std::is_pointer_v<decltype(data.code)>) data.code = &error_code;
  }(error);
  error.text = error_text;
  error.text_buffer_size = sizeof(error_text);
  impl->server = mg_start2(&init, &error);
  if (impl->server == nullptr) {
    const std::string why = absl::StrCat("cannot listen on ", impl->listen.ToString(), " for ",
                                         impl->options.name, ": ", error_text);
    // Another address would not help.
    return absl::StrContains(error_text, "Out of memory") ? absl::ResourceExhaustedError(why)
                                                          : absl::UnavailableError(why);
  }
  mg_set_request_handler(impl->server, "**", Impl::Handle, impl.get());
  mg_server_port bound[8]{};
  if (mg_get_server_ports(impl->server, 8, bound) > 0) impl->listen.port = bound[0].port;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  // The library's accepting thread notices a stop only when its poll returns: after 2 s, or when
  // somebody connects. So somebody does.
  std::atomic<bool> stopped = false;
  std::thread caller([this, &stopped] {
    while (!stopped) {
      (void)CheckAnswers(impl_->listen);
      absl::SleepFor(absl::Milliseconds(5));
    }
  });
  mg_stop(impl_->server);
  stopped = true;
  caller.join();
}

int HttpServer::port() const { return impl_->listen.port; }

std::string HttpServer::address() const { return impl_->listen.ToString(); }

}  // namespace dslide

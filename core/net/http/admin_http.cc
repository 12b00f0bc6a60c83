#include "core/net/http/admin_http.h"

#include <civetweb.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <type_traits>
#include <utility>

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

struct Page {
  int code = 200;
  const char* type = "text/plain; charset=utf-8";
  std::string body;
};

const char* ReasonPhrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
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
  LogWarning("admin http", {{"message", message}});
  return 1;  // handled
}

}  // namespace

struct AdminHttpServer::Impl {
  Page Answer(absl::string_view method, absl::string_view uri) const;
  static int Handle(mg_connection* connection, void* impl);

  AdminHttpOptions options;      // constant after construction
  ListenAddress listen;          // constant after construction
  mg_context* server = nullptr;  // self-synchronised
};

Page AdminHttpServer::Impl::Answer(absl::string_view method, absl::string_view uri) const {
  if (method != "GET" && method != "HEAD") {
    return {405, "text/plain; charset=utf-8", "only GET and HEAD\n"};
  }
  const Readiness readiness = options.readiness ? options.readiness() : Readiness{};
  if (uri == "/livez") return {.body = "ok\n"};
  if (uri == "/readyz") {
    if (readiness.ready) return {.body = "ok\n"};
    return {503, "text/plain; charset=utf-8", absl::StrCat("not ready: ", readiness.reason, "\n")};
  }
  if (uri == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8", ExposeAll(options.metrics)};
  }
  if (uri != "/") {
    return {404, "text/plain; charset=utf-8", "try /metrics, /livez, /readyz or /\n"};
  }
  const std::string state =
      readiness.ready ? "ready" : absl::StrCat("not ready: ", readiness.reason);
  return {200, "text/html; charset=utf-8",
          RenderStatusPage(options.title, readiness.ready, state,
                           options.status ? options.status() : StatusPage())};
}

int AdminHttpServer::Impl::Handle(mg_connection* connection, void* impl) {
  const mg_request_info& request = *mg_get_request_info(connection);
  const Page page =
      static_cast<const Impl*>(impl)->Answer(request.request_method, request.local_uri);
  const std::string head =
      absl::StrCat("HTTP/1.1 ", page.code, " ", ReasonPhrase(page.code),
                   "\r\nContent-Type: ", page.type, "\r\nContent-Length: ", page.body.size(),
                   "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                   "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n",
                   page.code == 405 ? "Allow: GET, HEAD\r\n" : "", "Connection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  if (std::strcmp(request.request_method, "HEAD") != 0) {
    mg_write(connection, page.body.data(), page.body.size());
  }
  return page.code;
}

absl::StatusOr<std::unique_ptr<AdminHttpServer>> AdminHttpServer::Start(AdminHttpOptions options) {
  ASSIGN_OR_RETURN(ListenAddress listen, ParseListenAddress(options.address));
  if (listen.is_unix) {
    return absl::InvalidArgumentError(
        absl::StrCat("the admin address ", options.address, " must be host:port"));
  }
  if (listen.port != 0) RETURN_IF_ERROR(CheckListenable(listen));
  static const unsigned library = mg_init_library(0);  // reference counted, once is enough
  (void)library;
  ASSIGN_OR_RETURN(const std::string ports, ListeningPorts(listen));

  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->listen = std::move(listen);
  // A handful of threads, short patience: a scraper and a prober are all that should ever call.
  const char* settings[] = {"listening_ports",    ports.c_str(), "num_threads", "4",
                            "request_timeout_ms", "5000",        nullptr};
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
    return absl::UnavailableError(absl::StrCat("cannot listen on ", impl->listen.ToString(),
                                               " for admin http: ", error_text));
  }
  mg_set_request_handler(impl->server, "**", Impl::Handle, impl.get());
  mg_server_port bound[8]{};
  if (mg_get_server_ports(impl->server, 8, bound) > 0) impl->listen.port = bound[0].port;
  return std::unique_ptr<AdminHttpServer>(new AdminHttpServer(std::move(impl)));
}

AdminHttpServer::AdminHttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

AdminHttpServer::~AdminHttpServer() {
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

int AdminHttpServer::port() const { return impl_->listen.port; }

std::string AdminHttpServer::address() const { return impl_->listen.ToString(); }

}  // namespace dslide

#include "core/net/http/admin_http.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/net/http/http_server.h"

namespace dslide {
namespace {

HttpReply AnswerAdmin(const AdminHttpOptions& options, const HttpCall& call) {
  if (call.method != "GET" && call.method != "HEAD") {
    return {.code = 405, .body = "only GET and HEAD\n", .headers = {{"Allow", "GET, HEAD"}}};
  }
  const Readiness readiness = options.readiness ? options.readiness() : Readiness{};
  if (call.path == "/livez") return {.body = "ok\n"};
  if (call.path == "/readyz") {
    if (readiness.ready) return {.body = "ok\n"};
    return {.code = 503, .body = absl::StrCat("not ready: ", readiness.reason, "\n")};
  }
  if (call.path == "/metrics") {
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = ExposeAll(options.metrics)};
  }
  if (call.path != "/") {
    return {.code = 404, .body = "try /metrics, /livez, /readyz or /\n"};
  }
  const std::string state =
      readiness.ready ? "ready" : absl::StrCat("not ready: ", readiness.reason);
  return {.type = "text/html; charset=utf-8",
          .body = RenderStatusPage(options.title, readiness.ready, state,
                                   options.status ? options.status() : StatusPage())};
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdminHttpServer>> AdminHttpServer::Start(AdminHttpOptions options) {
  std::string address = options.address;
  // A handful of threads: a scraper and a prober are all that should ever call.
  ASSIGN_OR_RETURN(
      std::unique_ptr<HttpServer> server,
      HttpServer::Start({.address = std::move(address),
                         .name = "admin http",
                         .handle = [options = std::move(options)](const HttpCall& call) {
                           HttpReply reply = AnswerAdmin(options, call);
                           reply.headers.emplace_back(
                               "Content-Security-Policy",
                               "default-src 'none'; style-src 'unsafe-inline'");
                           return reply;
                         }}));
  return std::unique_ptr<AdminHttpServer>(new AdminHttpServer(std::move(server)));
}

AdminHttpServer::AdminHttpServer(std::unique_ptr<HttpServer> server) : server_(std::move(server)) {}
AdminHttpServer::~AdminHttpServer() = default;

int AdminHttpServer::port() const { return server_->port(); }

std::string AdminHttpServer::address() const { return server_->address(); }

}  // namespace dslide

// A small HTTP/1.1 server: each request whole in, each answer whole out.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

struct HttpCall {
  std::string method;  // "GET"
  std::string path;    // "/v1/model", decoded, without what follows a '?'
  std::string body;
  // The value of a header, whatever the case of its name; "" when it is not there.
  std::function<std::string(const char* name)> header;
};

struct HttpReply {
  int code = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  // Further headers. Values are of one line.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct HttpServerOptions {
  // "host:port"; port 0 takes a free one. Hosts are addresses or names; "" is every interface.
  std::string address = {};
  // For errors and the log: "admin http".
  std::string name = {};
  // Answers; from several threads at once. HEAD is answered as GET is, without the body.
  std::function<HttpReply(const HttpCall& request)> handle = nullptr;
  // Requests that are answered at one time; others wait. [1, 1024].
  int threads = 4;
  // Longer bodies are refused with 413, before they are read; 0: a request has no body.
  int64_t max_body_bytes = 0;
  // Connections serve several requests, one after the other.
  bool keep_alive = false;
};

// Thread safety: safe from any thread. The destructor waits for running requests.
class HttpServer {
 public:
  // Errors: InvalidArgument for a malformed address or unknown host; AlreadyExists when the port is
  // taken; Unavailable for another reason the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options);

  ~HttpServer();

  // The port in use, also when 0 was asked for.
  int port() const;
  // "host:port" with the port in use.
  std::string address() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide

// A call that a face of the course takes and hands to the real server behind it.

#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <memory>

#include "absl/strings/string_view.h"
#include "client/cli/conformance/verdicts.h"

namespace dslide::cli {

enum class DeadlineRule { kNeeded, kNotLooked };

// What every call must have: a deadline, unless it is a stream that lives as long as its client
// wants, and a request id that is one where there is any.
void CheckCall(const grpc::ServerContext& context, absl::string_view call, DeadlineRule rule,
               Verdicts& verdicts);

// The context of the same call to the real server: its deadline, its end, its request id.
std::unique_ptr<grpc::ClientContext> ContextBehind(const grpc::ServerContext& context);

template <typename Stub, typename Request, typename Response>
using UnaryMethod = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// The real server's answer to a unary call.
template <typename Stub, typename Request, typename Response>
grpc::Status Forward(const grpc::ServerContext& context, Stub& stub,
                     UnaryMethod<Stub, Request, Response> method, const Request& request,
                     Response* response) {
  const std::unique_ptr<grpc::ClientContext> behind = ContextBehind(context);
  return (stub.*method)(behind.get(), request, response);
}

}  // namespace dslide::cli

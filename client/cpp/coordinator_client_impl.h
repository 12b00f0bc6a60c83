// What the sources of CoordinatorClient share.

#pragma once

#include <grpcpp/client_context.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/client_options.h"
#include "client/cpp/coordinator_client.h"
#include "client/cpp/unary_call.h"
#include "client/cpp/wire_counters.h"
#include "dslide/v1/coordinator.grpc.pb.h"

namespace dslide {

struct CoordinatorClient::Impl {
  std::string address;
  ClientOptions options;
  std::unique_ptr<v1::CoordinatorService::Stub> stub;
  std::string peer;
  std::string remedy;  // when nobody answers
  WireCounters* counters;
  // Before the first answer certificates may be wrong; later they are being renewed.
  mutable std::atomic<bool> answered = false;

  // Sends `request` by the stub's method until it is answered or the deadline passes.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(const char* name,
                                grpc::Status (v1::CoordinatorService::Stub::*method)(
                                    grpc::ClientContext*, const Request&, Response*),
                                const Request& request, absl::Duration timeout, bool retry) const {
    const UnaryCall call = {
        .peer = peer,
        .remedy = remedy,
        .name = name,
        .method = WireMethod::kCoordinator,
        .counters = counters,
        .timeout = timeout,
        .retry = options.retry,
        .repeat = retry,
        .request_id = options.request_id,
        .handshake_patience = answered ? absl::InfiniteDuration() : kHandshakePatience};
    absl::StatusOr<Response> response = RunUnaryCall<Request, Response>(
        call, request, [&](grpc::ClientContext* context, Response* reply) {
          return ((*stub).*method)(context, request, reply);
        });
    if (response.ok()) answered = true;
    return response;
  }

  // The model as it is, or would be, afterwards.
  absl::StatusOr<ModelSpec> Grow(const v1::GrowModelRequest& request) const;

  // Starts an operation and waits for its end; again where one that is safe to repeat is: after
  // UNAVAILABLE, and when the coordinator that had it is gone. Errors: its own, with its call in
  // front; Cancelled when it was stopped; DeadlineExceeded when it still runs, and was cancelled.
  absl::StatusOr<v1::Operation> RunOperation(
      const char* name, absl::FunctionRef<absl::StatusOr<v1::Operation>(absl::Duration)> start,
      absl::Duration timeout, const OperationWatch& watch) const;
  // The same for a call whose response is an operation.
  template <typename Request, typename Response>
  absl::StatusOr<v1::Operation> RunOperation(const char* name,
                                             grpc::Status (v1::CoordinatorService::Stub::*method)(
                                                 grpc::ClientContext*, const Request&, Response*),
                                             const Request& request, absl::Duration timeout,
                                             const OperationWatch& watch) const {
    const auto start = [&](absl::Duration left) -> absl::StatusOr<v1::Operation> {
      absl::StatusOr<Response> response = Call(name, method, request, left, true);
      if (!response.ok()) return response.status();
      return std::move(*response->mutable_operation());
    };
    return RunOperation(name, start, timeout, watch);
  }

 private:
  // The operation when it is done, or an error of the way to it.
  absl::StatusOr<v1::Operation> Await(const char* name, v1::Operation operation,
                                      absl::Time deadline, const OperationWatch& watch) const;
  absl::StatusOr<v1::Operation> Look(const v1::Operation& operation, absl::Duration wait,
                                     absl::Duration timeout) const;
  // Cancels it and waits a moment for its end.
  absl::StatusOr<v1::Operation> Stop(const char* name, const v1::Operation& operation) const;
};

}  // namespace dslide

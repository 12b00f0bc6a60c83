#include "services/common/rpc_metrics.h"

#include <google/protobuf/descriptor.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

// The spelling of the go-grpc-prometheus metrics; index = code.
constexpr const char* kCodes[] = {
    "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

const char* TypeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? "bidi_stream" : "client_stream";
  }
  return method.server_streaming() ? "server_stream" : "unary";
}

[[noreturn]] void Die(absl::string_view kind, absl::string_view name) {
  std::fprintf(stderr, "rpc metrics: no %s named %s\n", std::string(kind).c_str(),
               std::string(name).c_str());
  std::abort();
}

}  // namespace

void RpcMetrics::Method::RecordMessage(MessageDirection direction, int64_t bytes) const {
  const int index = direction == MessageDirection::kReceived ? 0 : 1;
  messages_[index].Increment();
  bytes_[index].Increment(static_cast<double>(bytes));
}

void RpcMetrics::Method::RecordStarted() const {
  ++*running_;
  started_.Increment();
}

void RpcMetrics::Method::RecordHandled(absl::StatusCode code, absl::Duration duration) const {
  const auto index = static_cast<size_t>(code);
  handled_[index < handled_.size() ? index : static_cast<size_t>(absl::StatusCode::kUnknown)]
      .Increment();
  seconds_.Observe(absl::ToDoubleSeconds(duration));
  --*running_;
}

RpcMetrics::RpcMetrics(Metrics& metrics, absl::string_view service,
                       const std::string& proto_service)
    : running_(std::make_shared<std::atomic<int64_t>>(0)) {
  const auto* const descriptor =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(proto_service);
  if (descriptor == nullptr) Die("service", proto_service);
  const std::string messages = absl::StrCat("dslide_", service, "_messages_total");
  const std::string bytes = absl::StrCat("dslide_", service, "_bytes_total");
  for (int i = 0; i < descriptor->method_count(); ++i) {
    const auto& rpc = *descriptor->method(i);
    const MetricLabels labels = {{"grpc_type", TypeOf(rpc)},
                                 {"grpc_service", proto_service},
                                 {"grpc_method", std::string(rpc.name())}};
    Method method;
    method.name_ = std::string(rpc.name());
    method.service_ = proto_service;
    method.running_ = running_;
    method.started_ = metrics.AddCounter("grpc_server_started_total", "RPCs started.", labels);
    method.seconds_ = metrics.AddHistogram("grpc_server_handling_seconds",
                                           "Time from an RPC's start to its status.", labels);
    for (const char* code : kCodes) {
      MetricLabels with_code = labels;
      with_code.emplace_back("grpc_code", code);
      method.handled_.push_back(metrics.AddCounter("grpc_server_handled_total",
                                                   "RPCs completed, by status code.", with_code));
    }
    const char* const directions[] = {"received", "sent"};
    for (int direction = 0; direction < 2; ++direction) {
      const MetricLabels series = {{"method", std::string(rpc.name())},
                                   {"direction", directions[direction]}};
      method.messages_[direction] =
          metrics.AddCounter(messages, "Messages moved, seen from this server.", series);
      method.bytes_[direction] = metrics.AddCounter(
          bytes, "Bytes of messages moved, seen from this server, without framing.", series);
    }
    methods_.emplace(rpc.name(), std::move(method));
  }
}

const RpcMetrics::Method& RpcMetrics::method(absl::string_view name) const {
  const auto found = methods_.find(name);
  if (found == methods_.end()) Die("method", name);
  return found->second;
}

}  // namespace dslide

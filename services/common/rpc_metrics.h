// The metrics of one gRPC service, named as stock dashboards expect them.
//
//   grpc_server_started_total, grpc_server_handled_total{grpc_code}, grpc_server_handling_seconds
//     with grpc_service, grpc_method and grpc_type;
//   dslide_<service>_messages_total, dslide_<service>_bytes_total with method and direction.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

enum class MessageDirection { kReceived, kSent };

// Thread safety: safe from any thread; all series exist from the start.
class RpcMetrics {
 public:
  // One method's series. Cheap to use; lives as long as its RpcMetrics.
  class Method {
   public:
    // As in the proto file ("Step").
    const std::string& name() const { return name_; }
    const std::string& service() const { return service_; }  // "dslide.v1.ShardService"
    // One protobuf message, in its size on the wire without framing.
    void RecordMessage(MessageDirection direction, int64_t bytes) const;
    void RecordStarted() const;
    void RecordHandled(absl::StatusCode code, absl::Duration duration) const;

   private:
    friend class RpcMetrics;
    std::string name_;
    std::string service_;
    std::shared_ptr<std::atomic<int64_t>> running_;  // of all methods
    Counter started_;
    std::vector<Counter> handled_;  // by code
    Histogram seconds_;
    Counter messages_[2];  // by direction
    Counter bytes_[2];
  };

  // `service` is the word in our names ("shard"), `proto_service` the full name of the service
  // ("dslide.v1.ShardService"), whose methods are taken from its descriptor. An unknown name
  // aborts.
  RpcMetrics(Metrics& metrics, absl::string_view service, const std::string& proto_service);

  // `name` as in the proto file ("Step"). An unknown name aborts.
  const Method& method(absl::string_view name) const;

  // Calls that were started and are not handled yet.
  int64_t running() const { return *running_; }

  void RecordMessage(absl::string_view name, MessageDirection direction, int64_t bytes) const {
    method(name).RecordMessage(direction, bytes);
  }

 private:
  const std::shared_ptr<std::atomic<int64_t>> running_;
  absl::flat_hash_map<std::string, Method> methods_;  // constant after construction
};

}  // namespace dslide

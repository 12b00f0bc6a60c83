#include "services/shard/coordinator_link_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/random_id.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"
#include "core/wire/durations.h"
#include "core/wire/model_spec_codec.h"
#include "core/wire/request_id.h"
#include "dslide/v1/coordinator.grpc.pb.h"
#include "services/common/status_mapping.h"

namespace dslide::shard {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(5);
constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(1);
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
constexpr absl::Duration kShortestInterval = absl::Milliseconds(10);
// While clients may wait to hear that the cluster is not taken back.
constexpr absl::Duration kIntervalOfWaiting = absl::Milliseconds(100);

std::string NewInstanceId() {
  const auto id = RandomId();
  return std::string(id.begin(), id.end());
}

bool IsAbsence(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

struct CoordinatorLink::Connection {
  std::unique_ptr<v1::CoordinatorService::Stub> stub;
  // One for all calls, so that an error that comes again is the same.
  const std::string request_id = wire::RequestIdOrNew("");

  // Calls with a deadline.
  template <typename Invoke>
  absl::Status Call(absl::Duration timeout, const Invoke& invoke) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
    context.AddMetadata(wire::kRequestIdKey, request_id);
    return FromGrpcStatus(invoke(*stub, &context));
  }
};

CoordinatorLink::CoordinatorLink(CoordinatorLinkOptions options, CoordinatorLinkHooks hooks)
    : options_(std::move(options)), hooks_(std::move(hooks)), instance_id_(NewInstanceId()) {
  thread_ = std::thread([this] { Run(); });
}

CoordinatorLink::~CoordinatorLink() { Stop(); }

bool CoordinatorLink::stopping() {
  const absl::MutexLock lock(&mu_);
  return stopping_;
}

bool CoordinatorLink::Sleep(absl::Duration duration) {
  const absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(&stopping_), duration);
}

void CoordinatorLink::Run() {
  while (Register() && KeepAlive()) {
  }
}

bool CoordinatorLink::Register() {
  absl::Status last;
  for (absl::Duration pause = kFirstPause; !stopping();
       pause = std::min(2 * pause, kLongestPause)) {
    absl::Status status;
    if (connection_ == nullptr) {
      auto channel = options_.channels(options_.coordinator);
      status = channel.status();
      if (channel.ok()) {
        connection_ = std::make_unique<Connection>();
        connection_->stub = v1::CoordinatorService::NewStub(*channel);
      }
    }
    v1::RegisterShardResponse response;
    if (connection_ != nullptr) {
      v1::RegisterShardRequest request;
      request.set_shard_id(shard_.value() >= 0 ? shard_.value() : options_.shard_id);
      request.set_address(options_.advertise);
      request.set_admin_address(options_.admin);
      request.set_capacity_weight(options_.capacity_weight);
      request.set_instance_id(instance_id_);
      const bool again = generation_ != 0;
      for (const ModelSpec& spec : again ? hooks_.models() : options_.models) {
        wire::EncodeModelSpec(spec, request.add_models());
      }
      status = connection_->Call(kCallTimeout, [&](auto& stub, grpc::ClientContext* context) {
        return stub.RegisterShard(context, request, &response);
      });
    }
    if (status.ok()) {
      shard_ = ShardId(response.shard_id());
      generation_ = response.generation();
      interval_ = std::max(kShortestInterval, wire::DecodeDuration(response.heartbeat_interval()));
      rollback_pending_ = response.rollback_pending();
      hooks_.on_owned(shard_, generation_, rollback_pending_);
      return true;
    }
    if (status != last) {
      LogWarning("not registered with the coordinator",
                 {{"coordinator", options_.coordinator}, {"error", status.message()}});
    }
    last = status;
    if (ReasonOf(status) == reason::kFenced) {
      hooks_.on_fenced(status);
      return false;
    }
    if (!IsAbsence(status)) hooks_.on_refused(status);
    if (Sleep(pause)) return false;
  }
  return false;
}

bool CoordinatorLink::KeepAlive() {
  bool away = false;
  while (!Sleep(rollback_pending_ ? std::min(interval_, kIntervalOfWaiting) : interval_)) {
    v1::HeartbeatRequest request;
    request.set_shard_id(shard_.value());
    request.set_generation(generation_);
    request.set_memory_bytes(hooks_.memory_bytes());
    request.set_applied_commands(hooks_.applied_commands());
    v1::HeartbeatResponse response;
    const absl::Duration start = SteadyClock().Now();
    const absl::Status status =
        connection_->Call(kCallTimeout, [&](auto& stub, grpc::ClientContext* context) {
          return stub.Heartbeat(context, request, &response);
        });
    if (status.ok()) {
      rollback_pending_ = response.rollback_pending();
      hooks_.on_rollback_pending(rollback_pending_);
      if (hooks_.on_heartbeat) hooks_.on_heartbeat(SteadyClock().Now() - start);
    }
    if (IsAbsence(status) != away) {
      away = !away;
      LogInfo(away ? "the coordinator does not answer; serving goes on" : "coordinator is back",
              {{"coordinator", options_.coordinator}, {"error", status.message()}});
    }
    if (absl::IsNotFound(status)) return true;  // it has lost its memory
    if (absl::IsFailedPrecondition(status)) {
      hooks_.on_fenced(status);
      return false;
    }
  }
  return false;
}

void CoordinatorLink::Stop() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (!thread_.joinable()) return;
  thread_.join();
  if (generation_ == 0 || connection_ == nullptr) return;
  v1::DeregisterShardRequest request;
  request.set_shard_id(shard_.value());
  request.set_generation(generation_);
  request.set_log_failed(hooks_.log_failed());
  v1::DeregisterShardResponse response;
  const absl::Status status =
      connection_->Call(kGoodbyeTimeout, [&](auto& stub, grpc::ClientContext* context) {
        return stub.DeregisterShard(context, request, &response);
      });
  if (!status.ok()) {
    LogWarning("left without the coordinator's knowledge", {{"error", status.message()}});
  }
}

}  // namespace dslide::shard

#include "services/shard/rpc/shard_call_service.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "services/common/call_span.h"
#include "services/common/failed_call.h"

namespace dslide::shard {
namespace {

constexpr absl::Duration kBulkRetryAfter = absl::Milliseconds(100);

// The job in whose name a command comes; null: in no job's.
const std::string* JobOf(const Command& command) {
  if (const auto* hello = std::get_if<HelloCommand>(&command)) return &hello->job;
  if (const auto* bye = std::get_if<CloseClientCommand>(&command)) return &bye->job;
  if (const auto* step = std::get_if<StepCommand>(&command)) return &step->envelope.job;
  if (const auto* scatter = std::get_if<ScatterCommand>(&command)) return &scatter->envelope.job;
  if (const auto* refused = std::get_if<RefusedCommand>(&command)) return &refused->envelope.job;
  return nullptr;
}

PeerIdentity IdentityOf(const grpc::CallbackServerContext& context) {
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return nullptr;
  // What a renewed certificate has in common with the one before.
  std::vector<std::string> names;
  for (const char* property : {GRPC_X509_SUBJECT_PROPERTY_NAME, GRPC_PEER_URI_PROPERTY_NAME}) {
    const size_t first = names.size();
    for (const grpc::string_ref& name : peer->FindPropertyValues(property)) {
      names.emplace_back(name.data(), name.size());
    }
    std::sort(names.begin() + static_cast<std::ptrdiff_t>(first), names.end());
  }
  return std::make_shared<const std::string>(absl::StrJoin(names, "\n"));
}

}  // namespace

bool StreamRegistry::Add(Stoppable* stream) {
  const absl::MutexLock lock(&mu_);
  if (stopped_) return false;
  streams_.insert(stream);
  return true;
}

void StreamRegistry::Remove(Stoppable* stream) {
  const absl::MutexLock lock(&mu_);
  streams_.erase(stream);
}

void StreamRegistry::StopAll() {
  const absl::MutexLock lock(&mu_);
  stopped_ = true;
  for (Stoppable* const stream : streams_) stream->Stop();
}

CallRecord::CallRecord(ServiceContext& shared, absl::string_view method,
                       const CallMetadata& metadata)
    : shared_(shared),
      method_(shared.rpc->method(method)),
      metadata_(metadata),
      start_(shared.clock->Now()),
      span_(FollowCall(method_, metadata)) {
  method_.RecordStarted();
}

CallRecord::~CallRecord() { shared_.bulk_bytes.fetch_sub(bulk_bytes_); }

void CallRecord::Received(size_t bytes) const {
  method_.RecordMessage(MessageDirection::kReceived, static_cast<int64_t>(bytes));
  received_messages_.fetch_add(1, std::memory_order_relaxed);
  received_bytes_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

void CallRecord::Sent(size_t bytes) const {
  method_.RecordMessage(MessageDirection::kSent, static_cast<int64_t>(bytes));
  sent_messages_.fetch_add(1, std::memory_order_relaxed);
  sent_bytes_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

grpc::Status CallRecord::Finish(const absl::Status& status) {
  method_.RecordHandled(status.code(), shared_.clock->Now() - start_);
  span_.End(status);
  if (status.ok()) {
    shared_.metrics->RecordTraffic(what_, {.received_messages = received_messages_,
                                           .received_bytes = received_bytes_,
                                           .sent_messages = sent_messages_,
                                           .sent_bytes = sent_bytes_});
    return grpc::Status::OK;
  }
  return EndFailedCall(method_.name(), RequestId(), status);
}

void CallRecord::LogError(const absl::Status& error) {
  LogFailure(method_.name(), RequestId(), error);
}

const std::string& CallRecord::RequestId() {
  if (request_id_.empty()) request_id_ = RequestIdOf(metadata_);
  return request_id_;
}

absl::Status CallRecord::TakeBulk(int64_t bytes) {
  const int64_t before = shared_.bulk_bytes.fetch_add(bytes);
  // A call of any size may run alone.
  if (before > bulk_bytes_ && before + bytes > shared_.limits.bulk_bytes) {
    shared_.bulk_bytes.fetch_sub(bytes);
    return OverloadStatus(reason::kBulkFull,
                          absl::StrCat("other gathers and scatters hold ", before - bulk_bytes_,
                                       " bytes: send it again later"),
                          kBulkRetryAfter);
  }
  bulk_bytes_ += bytes;
  return absl::OkStatus();
}

Peer PeerOf(const ServiceContext& shared, const grpc::CallbackServerContext& context) {
  return {.identity = IdentityOf(context), .jobs = shared.jobs.JobsOf(context)};
}

std::function<absl::Status()> AdmitCommand(ServiceContext& shared,
                                           const grpc::CallbackServerContext* context,
                                           const Peer& peer, const Command& command) {
  if (const std::string* const job = JobOf(command); job != nullptr) {
    if (absl::Status allowed = shared.jobs.Check(peer.jobs, *job); !allowed.ok()) {
      return [allowed = std::move(allowed)] { return allowed; };
    }
  }
  const ClientId* const client = ClientOf(command);
  std::function<absl::Status()> present = RefuseCancelled(context);
  // Without certificates nobody is told apart.
  if (client == nullptr || peer.identity == nullptr) return present;
  return [&shared, owner = peer.identity, client = *client,
          present = std::move(present)]() -> absl::Status {
    RETURN_IF_ERROR(present());
    RETURN_IF_ERROR(shared.owners.Check(client, owner));
    if (shared.owners.crowded()) {
      // Refused only while the shard stops.
      shared.sequencer
          ->SubmitTask([&shared](ShardCore& core) { shared.owners.KeepOpen(core.clients()); })
          .IgnoreError();
    }
    return absl::OkStatus();
  };
}

std::function<absl::Status()> RefuseCancelled(const grpc::CallbackServerContext* context) {
  return [context] {
    return context->IsCancelled()
               ? absl::CancelledError("the caller gave up before the request's turn came")
               : absl::OkStatus();
  };
}

}  // namespace dslide::shard

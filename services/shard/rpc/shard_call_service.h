// What all handlers of the shard's service share. Internal to the service.

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/system/buffer_pool.h"
#include "core/wire/row_codec.h"
#include "services/common/failed_call.h"
#include "services/common/rpc_metrics.h"
#include "services/common/server/job_guard.h"
#include "services/common/trace/span.h"
#include "services/shard/image/model_checkpoints.h"
#include "services/shard/metrics/shard_metrics.h"
#include "services/shard/rpc/client_owners.h"
#include "services/shard/sequencer/sequencer.h"

namespace dslide::shard {

struct ServiceLimits {
  // Of one step stream: answers not yet written, and the bytes of their requests. Beyond it the
  // stream is not read, and flow control reaches the client.
  int64_t stream_requests = 256;
  int64_t stream_bytes = int64_t{32} << 20;
  // Of one Scatter call.
  int64_t scatter_bytes = int64_t{768} << 20;
  // Of all Gather answers and Scatter requests that are in memory at one time.
  int64_t bulk_bytes = int64_t{1} << 30;
  // Kept of the memory of Gather answers when they are sent, for the next ones.
  int64_t spare_bulk_bytes = int64_t{128} << 20;
};

// One message of a Gather answer: its bytes, and room to put its rows on a 64-byte boundary.
inline constexpr int64_t kBulkBufferBytes = wire::kChunkBytes + 256;

// One long-lived stream, as far as a shutdown is concerned.
class Stoppable {
 public:
  virtual ~Stoppable() = default;
  // Ends it when its requests are answered. From any thread.
  virtual void Stop() = 0;
};

// The open streams. Thread safety: safe from any thread.
class StreamRegistry {
 public:
  // False when streams are to end already.
  bool Add(Stoppable* stream);
  // When it returns, nobody stops the stream any more.
  void Remove(Stoppable* stream);
  // Stops those that are there, and all later ones.
  void StopAll();

 private:
  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::set<Stoppable*> streams_ ABSL_GUARDED_BY(mu_);
};

// Pointers are not owned and outlive all calls.
struct ServiceContext {
  ServiceContext(const ServiceLimits& service_limits, const std::string& job_cluster, Metrics& page)
      : limits(service_limits),
        jobs(job_cluster, page),
        bulk_buffers(kBulkBufferBytes, service_limits.spare_bulk_bytes) {}

  Sequencer* sequencer = nullptr;
  ShardMetrics* metrics = nullptr;
  const RpcMetrics* rpc = nullptr;
  const Clock* clock = nullptr;
  ModelCheckpoints* store = nullptr;  // null without a data directory; sequencer's thread only
  bool log_commands = false;          // requests bring what the command log keeps of them
  // After a checkpoint was loaded: rows changed by no command. Null without a log.
  std::function<absl::Status(ShardCore&)> rows_replaced = nullptr;
  const ServiceLimits limits;
  const JobGuard jobs;
  BufferPool bulk_buffers;
  ClientOwners owners;  // sequencer's thread only
  StreamRegistry streams = {};
  std::atomic<int64_t> bulk_bytes = 0;
  // Who this shard is, for calls that do not go through the sequencer.
  std::atomic<int32_t> shard_id = -1;
  std::atomic<uint64_t> generation = 0;
  std::atomic<uint64_t> topology_version = 0;
};

// The bookkeeping of one call: its metrics, its errors in the log, its span, and its place in the
// budget of bulk calls.
class CallRecord {
 public:
  // `metadata` outlives it.
  CallRecord(ServiceContext& shared, absl::string_view method, const CallMetadata& metadata);
  ~CallRecord();
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  void Received(size_t bytes) const;
  void Sent(size_t bytes) const;
  // What the call works on, for the traffic by table. Once, before Finish().
  void Of(TableOperation what) { what_ = std::move(what); }
  // Counts the end of the call, once, logs a failure, and translates its status.
  grpc::Status Finish(const absl::Status& status);
  // Logs an answer on the call's stream that is an error. Never beside itself or Finish().
  void LogError(const absl::Status& error);
  // Takes bytes from the bulk budget until the call is gone. Errors: ResourceExhausted BULK_FULL;
  // nothing is taken then.
  absl::Status TakeBulk(int64_t bytes);

 private:
  const std::string& RequestId();

  ServiceContext& shared_;
  const RpcMetrics::Method& method_;
  const CallMetadata& metadata_;
  const absl::Duration start_;
  Span span_;
  std::string request_id_;  // empty until something fails
  int64_t bulk_bytes_ = 0;
  TableOperation what_;
  // Those who read and those who write may be two threads.
  mutable std::atomic<int64_t> received_messages_ = 0, received_bytes_ = 0;
  mutable std::atomic<int64_t> sent_messages_ = 0, sent_bytes_ = 0;
};

// A caller, by the certificate that it has shown; without one it is nobody, and free.
struct Peer {
  PeerIdentity identity;
  PeerJobs jobs;
};
Peer PeerOf(const ServiceContext& shared, const grpc::CallbackServerContext& context);

// An Admit function for the sequencer: refuses when the caller has given up. `context` outlives the
// call.
std::function<absl::Status()> RefuseCancelled(const grpc::CallbackServerContext* context);

// As RefuseCancelled(), and refuses also what comes in the name of somebody else's client, or of a
// job that the peer may not work for.
std::function<absl::Status()> AdmitCommand(ServiceContext& shared,
                                           const grpc::CallbackServerContext* context,
                                           const Peer& peer, const Command& command);

}  // namespace dslide::shard

// The shard's side of its membership: registers with the coordinator, says that it lives, registers
// again with a coordinator that has forgotten it, and learns when another process took its place.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/spec/model_spec.h"
#include "services/common/server/transport.h"

namespace dslide::shard {

struct CoordinatorLinkOptions {
  std::string coordinator;  // address
  std::string advertise;    // address under which clients reach this shard
  std::string admin;        // and its admin page; empty: they do not
  int32_t shard_id = -1;    // wanted; -1: any
  double capacity_weight = 1.0;
  std::vector<ModelSpec> models;  // loaded already; what the first registration names
  ServiceChannelFactory channels;
};

// Called on the link's thread. None may be null unless it says so.
struct CoordinatorLinkHooks {
  // The shard has an ordinal and a generation, for the first time or again. rollback_pending: the
  // coordinator may take the cluster back to a checkpoint.
  std::function<void(ShardId, uint64_t generation, bool rollback_pending)> on_owned;
  // What each heartbeat's answer says of that.
  std::function<void(bool)> on_rollback_pending;
  // Another process owns the ordinal; the link ends. `why` is for people.
  std::function<void(const absl::Status& why)> on_fenced;
  // Registration fails for a reason other than an absent coordinator; the link keeps trying.
  std::function<void(const absl::Status& why)> on_refused;
  // What the shard holds now, for a coordinator that has forgotten it.
  std::function<std::vector<ModelSpec>()> models;
  std::function<int64_t()> memory_bytes;
  std::function<int64_t()> applied_commands;
  // Whether the shard ends because its log has failed.
  std::function<bool()> log_failed;
  // A heartbeat was answered after so long. May be null.
  std::function<void(absl::Duration round_trip)> on_heartbeat = nullptr;
};

// The shard keeps serving while the coordinator is away. Thread safety: safe from any thread.
class CoordinatorLink {
 public:
  CoordinatorLink(CoordinatorLinkOptions options, CoordinatorLinkHooks hooks);
  ~CoordinatorLink();

  // Says good-bye to the coordinator, if it answers within a second, and ends the thread.
  void Stop();

 private:
  struct Connection;

  void Run();
  // Until the shard is registered. False when stopping or fenced.
  bool Register();
  // Until the coordinator does not know the shard any more. False when stopping or fenced.
  bool KeepAlive();
  // True when stopping.
  bool Sleep(absl::Duration duration);
  bool stopping();

  const CoordinatorLinkOptions options_;
  const CoordinatorLinkHooks hooks_;
  const std::string instance_id_;           // 16 random bytes
  std::unique_ptr<Connection> connection_;  // of the link's thread, and of Stop() after it
  ShardId shard_ = ShardId(-1);             // as above
  uint64_t generation_ = 0;                 // as above
  bool rollback_pending_ = false;           // as above; as the coordinator said last
  absl::Duration interval_ = absl::Seconds(1);
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace dslide::shard

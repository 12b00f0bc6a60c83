// Whether a shard serves, as whom, and if not, why.

#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "services/common/server/server_runtime.h"

namespace dslide::shard {

struct ShardIdentity {
  ShardId shard = ShardId(-1);  // -1 before it is registered
  uint64_t generation = 0;
  std::string address;  // under which clients reach it
};

// Tells the server's health as well, once there is a server. Thread safety: safe from any thread.
class ShardReadiness {
 public:
  // Health is told to it from now on. Outlives this.
  void Attach(ServerRuntime* runtime, absl::string_view trouble);
  void SetReady(ShardIdentity identity);
  // Not while it is ready.
  void SetTrouble(absl::string_view trouble);
  // Never ready again: another process serves, or the log has failed.
  void Fence(absl::string_view trouble);

  ShardIdentity identity() const;
  bool fenced() const;
  // Errors: DeadlineExceeded with the last trouble.
  absl::Status WaitUntilReady(absl::Duration timeout) const;

 private:
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  ServerRuntime* runtime_ ABSL_GUARDED_BY(mu_) = nullptr;
  ShardIdentity identity_ ABSL_GUARDED_BY(mu_);
  bool ready_ ABSL_GUARDED_BY(mu_) = false;
  bool fenced_ ABSL_GUARDED_BY(mu_) = false;
  std::string trouble_ ABSL_GUARDED_BY(mu_) = "not registered yet";
};

}  // namespace dslide::shard

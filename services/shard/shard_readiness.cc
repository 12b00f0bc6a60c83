#include "services/shard/shard_readiness.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dslide::shard {

void ShardReadiness::Tell() {
  if (runtime_ == nullptr) return;
  if (ready_) return runtime_->SetReady(true);
  runtime_->SetReady(false, trouble_);
}

void ShardReadiness::Attach(ServerRuntime* runtime, absl::string_view trouble) {
  const absl::MutexLock lock(&mu_);
  runtime_ = runtime;
  if (!fenced_) trouble_ = std::string(trouble);
  Tell();
}

void ShardReadiness::SetReady(ShardIdentity identity) {
  const absl::MutexLock lock(&mu_);
  if (fenced_) return;
  identity_ = std::move(identity);
  ready_ = true;
  Tell();
}

void ShardReadiness::SetTrouble(absl::string_view trouble) {
  const absl::MutexLock lock(&mu_);
  if (ready_ || fenced_) return;
  trouble_ = std::string(trouble);
  Tell();
}

void ShardReadiness::Fence(absl::string_view trouble) {
  const absl::MutexLock lock(&mu_);
  fenced_ = true;
  ready_ = false;
  trouble_ = std::string(trouble);
  Tell();
}

ShardIdentity ShardReadiness::identity() const {
  const absl::MutexLock lock(&mu_);
  return identity_;
}

bool ShardReadiness::fenced() const {
  const absl::MutexLock lock(&mu_);
  return fenced_;
}

absl::Status ShardReadiness::WaitUntilReady(absl::Duration timeout) const {
  const absl::MutexLock lock(&mu_);
  if (mu_.AwaitWithTimeout(absl::Condition(&ready_), timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("the shard is not ready after ", absl::FormatDuration(timeout), ": ", trouble_));
}

}  // namespace dslide::shard

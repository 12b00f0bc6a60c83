// A stand-in for the shards that a coordinator asks.

#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "services/coordinator/membership/shard_admin.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/coordinator/fake_shard.h"

namespace dslide::coordinator {

// Shards by address that only remember which models they have.
class FakeShards final : public ShardAdmin {
 public:
  using Shard = FakeShard;

  absl::StatusOr<bool> CreateModel(const std::string& address, const CreateModelCommand& command,
                                   absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    ++shard.creates;
    for (const TableSpec& table : command.spec.tables) {
      if (table.role != TableRole::kHead) continue;
      shard.largest_head = std::max(shard.largest_head, table.rows);
    }
    if (!shard.failure.ok()) return shard.failure;
    if (!shard.create_failure.ok()) return shard.create_failure;
    if (command.dry_run) return false;
    const bool is_new = !shard.models.contains(command.spec.name);
    if (is_new || command.grow) shard.models.insert_or_assign(command.spec.name, command);
    return is_new;
  }
  absl::Status DropModel(const std::string& address, const std::string& model,
                         absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    return shard.models.erase(model) > 0 ? absl::OkStatus() : absl::NotFoundError("no model");
  }
  absl::StatusOr<CheckpointSize> WriteCheckpoint(const std::string& address,
                                                 const std::string& model,
                                                 const std::string& checkpoint,
                                                 const std::vector<std::string>& best_kept,
                                                 absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    shard.checkpoints.insert(absl::StrCat(model, "/", checkpoint));
    shard.best_kept = best_kept;
    return CheckpointSize{10, 1000};
  }
  absl::StatusOr<int64_t> LoadCheckpoint(const std::string& address, const std::string& model,
                                         const std::string& checkpoint, absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    if (!shard.checkpoints.contains(absl::StrCat(model, "/", checkpoint))) {
      return absl::NotFoundError("no checkpoint");
    }
    return 10;
  }
  absl::StatusOr<absl::Duration> EstimateFreezeDelay(const std::string& address, uint64_t,
                                                     absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    return shard.freeze_delay ? shard.freeze_delay() : absl::ZeroDuration();
  }
  absl::StatusOr<std::vector<ClientStep>> FreezeSteps(const std::string& address,
                                                      uint64_t checkpoint_id, uint64_t,
                                                      absl::Duration, absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    shard.frozen = checkpoint_id;
    return shard.changed;
  }
  absl::StatusOr<std::vector<ClientStep>> AdmitSteps(const std::string& address, uint64_t,
                                                     const std::vector<ClientStep>& up_to,
                                                     const std::vector<ClientId>& evict,
                                                     absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    shard.closed.insert(shard.closed.end(), evict.begin(), evict.end());
    ++shard.admissions;
    return shard.incomplete ? shard.incomplete(up_to, evict) : std::vector<ClientStep>();
  }
  absl::StatusOr<absl::Duration> CutCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                               const PartBase& base, absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    shard.frozen = 0;
    if (!shard.failure.ok()) return shard.failure;
    if (!shard.cut_failure.ok()) return shard.cut_failure;
    // What is named and here is built on, unless the shard has a reason not to.
    shard.bases[checkpoint_id] = base;
    const auto known = shard.cuts.find(base.checkpoint_id);
    const bool builds = base.checkpoint_id != 0 && !shard.writes_all_rows &&
                        known != shard.cuts.end() &&
                        known->second.files_checksum == base.files_checksum;
    shard.cuts[checkpoint_id] = {.state = PartProgress::State::kPrepared,
                                 .rows = 10,
                                 .files = 2,
                                 .bytes = 1000,
                                 .files_checksum = static_cast<uint32_t>(checkpoint_id),
                                 .base_checkpoint_id = builds ? base.checkpoint_id : 0,
                                 .written_bytes = builds ? 50 : 1000,
                                 .error = ""};
    return shard.stall;
  }
  absl::Status AbortCheckpoint(const std::string& address, uint64_t checkpoint_id,
                               absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (shard.aborts_lost > 0) {
      --shard.aborts_lost;
      return absl::UnavailableError("connection reset");
    }
    shard.frozen = 0;
    shard.aborted.push_back(checkpoint_id);
    return absl::OkStatus();
  }
  absl::StatusOr<PartProgress> CheckpointProgress(const std::string& address,
                                                  uint64_t checkpoint_id, absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    PartProgress progress =
        shard.cuts.contains(checkpoint_id) ? shard.cuts[checkpoint_id] : PartProgress();
    if (shard.on_progress) shard.on_progress(progress);
    return progress;
  }
  absl::Status VerifyCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                uint32_t checksum, absl::Duration,
                                WorkProgress& progress) override {
    if (on_verify) on_verify(progress);
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    const auto cut = shard.cuts.find(checkpoint_id);
    if (cut == shard.cuts.end()) return absl::NotFoundError("no part");
    return cut->second.files_checksum == checksum ? absl::OkStatus()
                                                  : absl::DataLossError("another part");
  }
  absl::Status PrepareRollback(const std::string& address, uint64_t checkpoint_id, uint32_t sum,
                               absl::Duration timeout, WorkProgress& progress) override {
    return VerifyCheckpoint(address, checkpoint_id, sum, timeout, progress);
  }
  absl::Status RetainCheckpoints(const std::string& address,
                                 const std::vector<uint64_t>& checkpoint_ids,
                                 absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    std::erase_if(shards_[address].cuts, [&](const auto& cut) {
      return std::find(checkpoint_ids.begin(), checkpoint_ids.end(), cut.first) ==
             checkpoint_ids.end();
    });
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Rollback(const std::string& address, uint64_t checkpoint_id, uint32_t,
                                   absl::Duration) override {
    const absl::MutexLock lock(&mu_);
    Shard& shard = shards_[address];
    if (!shard.failure.ok()) return shard.failure;
    if (shard.on_rollback) shard.on_rollback();
    if (!shard.rollback_failure.ok()) return shard.rollback_failure;
    shard.rolled_back.push_back(checkpoint_id);
    return 10;
  }
  void Stop() override {}

  // Set before calls: runs in each verification, without a lock.
  std::function<void(WorkProgress&)> on_verify;

  // Reads or changes a shard while no call runs.
  template <typename Use>
  auto With(const std::string& address, const Use& use) {
    const absl::MutexLock lock(&mu_);
    return use(shards_[address]);
  }
  bool AwaitModel(const std::string& address, const std::string& model) {
    const auto is_there = [&](const Shard& shard) { return shard.models.contains(model); };
    return Eventually([&] { return With(address, is_there); });
  }

 private:
  absl::Mutex mu_;
  std::map<std::string, Shard> shards_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide::coordinator

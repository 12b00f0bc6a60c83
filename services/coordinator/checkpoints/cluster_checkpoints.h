// Takes cluster checkpoints, and the cluster back to them: the driver of the protocol that
// docs/operate/checkpoint.md describes. The shards do the work; the manifest store says what
// counts.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "services/coordinator/assets/asset_store.h"
#include "services/coordinator/checkpoints/manifest.h"
#include "services/coordinator/checkpoints/manifest_store.h"
#include "services/coordinator/membership/fan_out.h"
#include "services/coordinator/membership/membership.h"
#include "services/coordinator/membership/shard_admin.h"
#include "services/coordinator/tasks/work_progress.h"

namespace dslide::coordinator {

struct ClusterCheckpointOptions {
  // How long trainers may take to finish the steps that they have begun; then they are retired.
  absl::Duration barrier_timeout = absl::Seconds(10);
  // How long shards may take to write.
  absl::Duration write_timeout = absl::Hours(1);
  // Of one small call to a shard.
  absl::Duration call_timeout = absl::Seconds(30);
  // Committed checkpoints that stay, >= 1.
  int64_t keep = 3;
  // Every so many-th one has all rows written anew; those between may be built on the one before
  // by hard links. 1: each. [1, kMaxFullEvery]
  int64_t full_every = 8;
  // Shards that are asked at once, >= 1.
  size_t calls_at_once = kFanOutThreads;
  // Waits between questions, by the time of the clock; null: as the system does.
  std::function<void(absl::Duration)> sleep = nullptr;
};

inline constexpr int64_t kMaxFullEvery = 100;

// Thread safety: one caller at a time. Calls block.
class ClusterCheckpoints {
 public:
  // `shards`, `assets` and `clock` outlive it. Assets that no manifest names are removed.
  ClusterCheckpoints(ClusterCheckpointOptions options, ShardAdmin* shards, AssetStore* assets,
                     const Clock* clock, std::unique_ptr<ManifestStore> store);

  // Takes one: waits a little for a moment when no shard makes hash tables, freezes steps, has
  // those finished that were begun, cuts, lets steps go on, waits for the shards' writing, and
  // commits. `capture` is called between the last finished step and the cuts, and adds what else
  // belongs to the cut: models, jobs and assets; `after_cut` when the cuts were made. After an
  // error nothing is committed, and steps go on. Errors: those of the shards, combined; Unavailable
  // of the disk; the progress's own, until it is committed.
  absl::StatusOr<Manifest> Take(const ClusterMap& map,
                                const std::function<void(Manifest&)>& capture,
                                const std::function<void()>& after_cut, WorkProgress& progress);

  // Committed ones, the newest first. Errors: DataLoss when a manifest is damaged.
  absl::StatusOr<std::vector<Manifest>> List() const;
  // checkpoint_id: 0 for the newest. Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss.
  absl::StatusOr<Manifest> Read(uint64_t checkpoint_id) const;

  // Every byte of it, on all shards and of the assets. Errors: those of Read and of the shards;
  // FailedPrecondition SHARDS_CHANGED when it is of another number of shards; the progress's own.
  absl::StatusOr<Manifest> Verify(const ClusterMap& map, uint64_t checkpoint_id,
                                  WorkProgress& progress) const;

  // The same without a look at the manifests, so that it may run while another checkpoint is taken.
  // Thread safety: safe from any thread.
  using PartCheck = decltype(&ShardAdmin::VerifyCheckpoint);  // or PrepareRollback
  absl::Status VerifyParts(const ClusterMap& map, const Manifest& manifest, WorkProgress& progress,
                           PartCheck check = &ShardAdmin::VerifyCheckpoint) const;
  // Remembers what a verification has found, or that it has found nothing ("").
  absl::Status MarkDamage(uint64_t checkpoint_id, const std::string& damage);
  std::string Damage(uint64_t checkpoint_id) const { return store_->Damage(checkpoint_id); }
  // Committed ones, the newest first.
  std::vector<uint64_t> CheckpointIds() const { return store_->List(); }
  // The newest that no verification has found damaged, and newer ones that were passed over.
  // Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss when all of them are damaged.
  struct Choice {
    uint64_t checkpoint_id = 0;
    std::vector<uint64_t> skipped = {};
  };
  absl::StatusOr<Choice> NewestWhole() const;

  // The manifest as it is in its file. checkpoint_id: 0 for the newest. Errors: those of Read.
  absl::StatusOr<std::string> Text(uint64_t checkpoint_id) const;
  // Commits a checkpoint that came back from a copy, once its parts are verified and its assets are
  // here. Errors: those of DecodeManifest, AssetStore::TakeIn and Verify; AlreadyExists when
  // another one has its number.
  absl::StatusOr<Manifest> Adopt(const ClusterMap& map, const std::string& text,
                                 WorkProgress& progress);

  // Takes all shards back to it, once all of it is verified, which reads it into their memory where
  // there is room. A damaged newest one is never passed
  // over in silence: an older one has to be named. Sets the store's mark that this was begun, and
  // leaves it to the caller to clear it; from the mark on it does not end early. Errors: those of
  // Verify: nothing has changed; later ones, with the mark: repeat it.
  absl::StatusOr<Manifest> Rollback(const ClusterMap& map, uint64_t checkpoint_id,
                                    WorkProgress& progress);

  // How many times a cluster of this data directory was taken back.
  uint64_t restore_count() const { return restore_count_; }

  // Removes all but the newest `keep`. Returns their checkpoint_ids.
  absl::StatusOr<std::vector<uint64_t>> Prune(const ClusterMap& map, int64_t keep);

 private:
  // Calls `call(i)` for each shard and joins what failed.
  absl::Status OnAll(const ClusterMap& map, const std::string& what,
                     absl::FunctionRef<absl::Status(size_t)> call) const;
  absl::Duration FreezeLimit() const;
  // Freezes and cuts, and says for how long steps stood still.
  absl::Status MakeCuts(const ClusterMap& map, std::optional<Manifest>& base,
                        const std::function<void(Manifest&)>& capture, Manifest& manifest,
                        WorkProgress& progress) const;
  absl::Status AwaitGoodMoment(const ClusterMap& map, uint64_t checkpoint_id,
                               const WorkProgress& progress) const;
  absl::Status Freeze(const ClusterMap& map, uint64_t checkpoint_id,
                      std::map<ClientId, int64_t>& steps) const;
  absl::Status FinishSteps(const ClusterMap& map, uint64_t checkpoint_id,
                           std::map<ClientId, int64_t>& steps, Manifest& manifest,
                           const WorkProgress& progress) const;
  // One round of AdmitSteps; what is not complete, with the highest step that waits.
  absl::StatusOr<std::map<ClientId, int64_t>> Admit(const ClusterMap& map, uint64_t checkpoint_id,
                                                    const std::map<ClientId, int64_t>& steps,
                                                    const std::vector<ClientId>& evict) const;
  // The newest one, if the next may be built on it as far as the coordinator knows.
  std::optional<Manifest> FindBase(const ClusterMap& map) const;
  // bases: by shard. Returns the longest that requests had to wait for the cut of a shard.
  absl::StatusOr<absl::Duration> Cut(const ClusterMap& map, uint64_t checkpoint_id,
                                     const std::vector<PartBase>& bases) const;
  // attempts: how often a shard is told that does not answer.
  absl::Status Abort(const ClusterMap& map, uint64_t checkpoint_id, int attempts) const;
  // base: of the cut, or null.
  absl::Status AwaitParts(const ClusterMap& map, const Manifest* base, Manifest& manifest,
                          WorkProgress& progress) const;
  absl::StatusOr<CheckpointPart> AwaitPart(const ShardInfo& shard, uint64_t checkpoint_id,
                                           const WorkProgress& progress) const;

  const ClusterCheckpointOptions options_;
  ShardAdmin* const shards_;
  AssetStore* const assets_;
  const Clock* const clock_;
  const std::unique_ptr<ManifestStore> store_;
  uint64_t restore_count_ = 0;
  uint64_t last_checkpoint_id_ = 0;  // also of those that failed: numbers are never used twice
};

}  // namespace dslide::coordinator

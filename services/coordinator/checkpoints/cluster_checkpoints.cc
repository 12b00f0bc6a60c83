#include "services/coordinator/checkpoints/cluster_checkpoints.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/files/system_error.h"
#include "core/system/log.h"
#include "services/coordinator/checkpoints/checkpoint_assets.h"

namespace dslide::coordinator {
namespace {

// Between questions to shards: trainers stand still during the first kind.
constexpr absl::Duration kStepPause = absl::Milliseconds(1);
constexpr absl::Duration kWritePause = absl::Milliseconds(20);
// Between questions whether this is a good moment, and for how long they are asked at most.
constexpr absl::Duration kMomentPause = absl::Milliseconds(5);
constexpr absl::Duration kLongestMoment = absl::Seconds(10);
// A freeze that nobody ends is over after the barrier's time and this.
constexpr absl::Duration kFreezeSlack = absl::Seconds(30);
// Where nobody answers to the end of a freeze, it is told again, for five seconds: what broke the
// checkpoint may break the first such call, too, and trainers stand still until one arrives.
constexpr absl::Duration kAbortPause = absl::Milliseconds(50);
constexpr int kAbortAttempts = 100;

std::string What(absl::string_view what, uint64_t checkpoint_id) {
  return absl::StrCat(what, " cluster checkpoint ", checkpoint_id);
}

absl::Status CheckShards(const ClusterMap& map, const Manifest& manifest) {
  if (map.shards.size() == manifest.parts.size()) return absl::OkStatus();
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kShardsChanged,
      absl::StrCat("cluster checkpoint ", manifest.checkpoint_id, " is of ", manifest.parts.size(),
                   " shards, the cluster has ", map.shards.size()));
}

absl::Status NoneTaken() {
  return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                          "no cluster checkpoint was taken yet: dslide checkpoint create");
}

ClusterCheckpointOptions WithSleep(ClusterCheckpointOptions options) {
  if (!options.sleep) options.sleep = absl::SleepFor;
  return options;
}

// Of what a shard says of its disk.
absl::Status WhyNotWritten(const std::string& error) {
  const absl::Status judged = SystemErrorOf(error);
  return StatusWithReason(judged.code(), ReasonOf(judged),
                          absl::StrCat("it could not write its part: ", error));
}

}  // namespace

ClusterCheckpoints::ClusterCheckpoints(ClusterCheckpointOptions options, ShardAdmin* shards,
                                       AssetStore* assets, const Clock* clock,
                                       std::unique_ptr<ManifestStore> store)
    : options_(WithSleep(std::move(options))),
      shards_(shards),
      assets_(assets),
      clock_(clock),
      store_(std::move(store)) {
  const std::vector<uint64_t> committed = store_->List();
  if (!committed.empty()) last_checkpoint_id_ = committed.front();
  restore_count_ = store_->RestoreCount();
  RetainAssets(*store_, *assets_);
}

absl::Status ClusterCheckpoints::OnAll(const ClusterMap& map, const std::string& what,
                                       absl::FunctionRef<absl::Status(size_t)> call) const {
  std::vector<absl::Status> results(map.shards.size());
  FanOut(
      results.size(), [&](size_t i) { results[i] = call(i); }, options_.calls_at_once);
  return CombineFailures(what, map.shards, results);
}

absl::Duration ClusterCheckpoints::FreezeLimit() const {
  return options_.barrier_timeout + kFreezeSlack;
}

absl::Status ClusterCheckpoints::AwaitGoodMoment(const ClusterMap& map, uint64_t checkpoint_id,
                                                 const WorkProgress& progress) const {
  const absl::Duration start = clock_->Now();
  absl::Duration since = start;
  for (absl::Duration last = absl::ZeroDuration();;) {
    RETURN_IF_ERROR(progress.Check());
    std::vector<absl::Duration> waits(map.shards.size());
    RETURN_IF_ERROR(OnAll(map, What("freezing for", checkpoint_id), [&](size_t i) -> absl::Status {
      const ShardInfo& shard = map.shards[i];
      ASSIGN_OR_RETURN(waits[i], shards_->EstimateFreezeDelay(shard.address, shard.generation,
                                                              options_.call_timeout));
      return absl::OkStatus();
    }));
    const absl::Duration longest = *std::max_element(waits.begin(), waits.end());
    const absl::Duration now = clock_->Now();
    // Another reason to wait: what was waited for the one before does not count.
    if (longest != last) since = now;
    last = longest;
    if (now - since >= longest || now - start >= kLongestMoment) return absl::OkStatus();
    options_.sleep(kMomentPause);
  }
}

absl::Status ClusterCheckpoints::Freeze(const ClusterMap& map, uint64_t checkpoint_id,
                                        std::map<ClientId, int64_t>& steps) const {
  std::vector<std::vector<ClientStep>> changed(map.shards.size());
  RETURN_IF_ERROR(OnAll(map, What("freezing for", checkpoint_id), [&](size_t i) -> absl::Status {
    const ShardInfo& shard = map.shards[i];
    ASSIGN_OR_RETURN(changed[i],
                     shards_->FreezeSteps(shard.address, checkpoint_id, shard.generation,
                                          FreezeLimit(), options_.call_timeout));
    return absl::OkStatus();
  }));
  for (const std::vector<ClientStep>& of_shard : changed) {
    for (const ClientStep& step : of_shard) {
      int64_t& highest = steps[step.client];
      highest = std::max(highest, step.step);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::map<ClientId, int64_t>> ClusterCheckpoints::Admit(
    const ClusterMap& map, uint64_t checkpoint_id, const std::map<ClientId, int64_t>& steps,
    const std::vector<ClientId>& evict) const {
  std::vector<ClientStep> up_to;
  up_to.reserve(steps.size());
  for (const auto& [client, step] : steps) up_to.push_back({client, step});
  std::vector<std::vector<ClientStep>> incomplete(map.shards.size());
  RETURN_IF_ERROR(
      OnAll(map, What("finishing steps for", checkpoint_id), [&](size_t i) -> absl::Status {
        ASSIGN_OR_RETURN(incomplete[i], shards_->AdmitSteps(map.shards[i].address, checkpoint_id,
                                                            up_to, evict, options_.call_timeout));
        return absl::OkStatus();
      }));
  std::map<ClientId, int64_t> open;
  for (const std::vector<ClientStep>& of_shard : incomplete) {
    for (const ClientStep& step : of_shard) {
      int64_t& waits = open[step.client];
      waits = std::max(waits, step.step);
    }
  }
  return open;
}

absl::Status ClusterCheckpoints::FinishSteps(const ClusterMap& map, uint64_t checkpoint_id,
                                             std::map<ClientId, int64_t>& steps, Manifest& manifest,
                                             const WorkProgress& progress) const {
  const absl::Duration deadline = clock_->Now() + options_.barrier_timeout;
  for (;;) {
    RETURN_IF_ERROR(progress.Check());
    ASSIGN_OR_RETURN(const auto open, Admit(map, checkpoint_id, steps, {}));
    if (open.empty()) return absl::OkStatus();
    if (clock_->Now() >= deadline) break;
    for (const auto& [client, waits] : open) {
      // What would finish its step may stand behind changes of later ones.
      int64_t& step = steps[client];
      step = std::max(step, waits);
    }
    options_.sleep(kStepPause);
  }
  ASSIGN_OR_RETURN(const auto open, Admit(map, checkpoint_id, steps, {}));
  std::vector<ClientId> evict;
  for (const auto& [client, waits] : open) {
    evict.push_back(client);
    manifest.evicted.push_back(client);
    steps.erase(client);
  }
  // First: should this checkpoint come to nothing, the next one must name them.
  RETURN_IF_ERROR(store_->KeepEvicted(manifest.evicted));
  LogWarning("trainers did not finish their steps in time for a cluster checkpoint",
             {{"checkpoint_id", checkpoint_id}, {"retired", open.size()}});
  return Admit(map, checkpoint_id, steps, evict).status();
}

std::optional<Manifest> ClusterCheckpoints::FindBase(const ClusterMap& map) const {
  const std::vector<uint64_t> committed = store_->List();
  if (options_.full_every <= 1 || committed.empty()) return std::nullopt;
  absl::StatusOr<Manifest> newest = store_->Read(committed.front());
  if (!newest.ok() || newest->restore_count != restore_count_ ||
      newest->topology_version != map.topology_version ||
      newest->parts.size() != map.shards.size()) {
    return std::nullopt;
  }
  uint64_t oldest = newest->checkpoint_id;
  for (const CheckpointPart& part : newest->parts) {
    if (part.increments + 1 >= options_.full_every) return std::nullopt;
    oldest = std::min(oldest, part.full_checkpoint_id);
  }
  // What is damaged may be in a file that later ones share.
  for (const uint64_t checkpoint_id : committed) {
    if (checkpoint_id >= oldest && !store_->Damage(checkpoint_id).empty()) return std::nullopt;
  }
  return *std::move(newest);
}

absl::StatusOr<absl::Duration> ClusterCheckpoints::Cut(const ClusterMap& map,
                                                       uint64_t checkpoint_id,
                                                       const std::vector<PartBase>& bases) const {
  std::vector<absl::Duration> stalls(map.shards.size());
  RETURN_IF_ERROR(OnAll(map, What("cutting", checkpoint_id), [&](size_t i) -> absl::Status {
    ASSIGN_OR_RETURN(stalls[i], shards_->CutCheckpoint(map.shards[i].address, checkpoint_id,
                                                       bases[i], options_.call_timeout));
    return absl::OkStatus();
  }));
  return *std::max_element(stalls.begin(), stalls.end());
}

absl::Status ClusterCheckpoints::Abort(const ClusterMap& map, uint64_t checkpoint_id,
                                       int attempts) const {
  return OnAll(map, What("aborting", checkpoint_id), [&](size_t i) {
    for (int attempt = 1;; ++attempt) {
      absl::Status status =
          shards_->AbortCheckpoint(map.shards[i].address, checkpoint_id, options_.call_timeout);
      const bool may_heal =
          absl::IsUnavailable(status) && ReasonOf(status) != reason::kShuttingDown;
      if (!may_heal || attempt == attempts) return status;
      options_.sleep(kAbortPause);
    }
  });
}

absl::StatusOr<CheckpointPart> ClusterCheckpoints::AwaitPart(const ShardInfo& shard,
                                                             uint64_t checkpoint_id,
                                                             const WorkProgress& progress) const {
  const absl::Duration deadline = clock_->Now() + options_.write_timeout;
  for (;;) {
    RETURN_IF_ERROR(progress.Check());
    ASSIGN_OR_RETURN(
        const PartProgress part,
        shards_->CheckpointProgress(shard.address, checkpoint_id, options_.call_timeout));
    switch (part.state) {
      case PartProgress::State::kPrepared:
        return CheckpointPart{.shard = shard.shard,
                              .generation = shard.generation,
                              .rows = part.rows,
                              .files = part.files,
                              .bytes = part.bytes,
                              .files_checksum = part.files_checksum,
                              .base_checkpoint_id = part.base_checkpoint_id,
                              .full_checkpoint_id = checkpoint_id,
                              .written_bytes = part.written_bytes};
      case PartProgress::State::kFailed:
        return WhyNotWritten(part.error);
      case PartProgress::State::kUnknown:
        return absl::UnavailableError("it does not know of its part: it was restarted");
      case PartProgress::State::kWriting:
        break;
    }
    if (clock_->Now() >= deadline) return absl::DeadlineExceededError("it writes for too long");
    options_.sleep(kWritePause);
  }
}

absl::Status ClusterCheckpoints::AwaitParts(const ClusterMap& map, const Manifest* base,
                                            Manifest& manifest, WorkProgress& progress) const {
  manifest.parts.resize(map.shards.size());
  progress.Begin("writing", map.shards.size());
  return OnAll(map, What("writing", manifest.checkpoint_id), [&](size_t i) -> absl::Status {
    CheckpointPart& part = manifest.parts[i];
    ASSIGN_OR_RETURN(part, AwaitPart(map.shards[i], manifest.checkpoint_id, progress));
    progress.ShardDone();
    if (part.base_checkpoint_id == 0) return absl::OkStatus();
    if (base == nullptr || part.base_checkpoint_id != base->checkpoint_id) {
      return absl::InternalError(absl::StrCat("it has built its part on checkpoint ",
                                              part.base_checkpoint_id, ", which nobody asked for"));
    }
    part.full_checkpoint_id = base->parts[i].full_checkpoint_id;
    part.increments = base->parts[i].increments + 1;
    return absl::OkStatus();
  });
}

absl::Status ClusterCheckpoints::MakeCuts(const ClusterMap& map, std::optional<Manifest>& base,
                                          const std::function<void(Manifest&)>& capture,
                                          Manifest& manifest, WorkProgress& progress) const {
  const uint64_t checkpoint_id = manifest.checkpoint_id;
  std::map<ClientId, int64_t> steps;
  RETURN_IF_ERROR(Freeze(map, checkpoint_id, steps));
  DSLIDE_FAILPOINT("coordinator.cut.frozen");
  progress.Begin("finishing steps");
  RETURN_IF_ERROR(FinishSteps(map, checkpoint_id, steps, manifest, progress));
  DSLIDE_FAILPOINT("coordinator.cut.finished");
  capture(manifest);
  if (base.has_value() && base->models != manifest.models) base.reset();
  ASSIGN_OR_RETURN(const absl::Duration stall, Cut(map, checkpoint_id, BasesFor(map, base)));
  manifest.stall_us = absl::ToInt64Microseconds(stall);
  for (const auto& [client, step] : steps) manifest.steps.push_back({client, step});
  DSLIDE_FAILPOINT("coordinator.cut.made");
  return absl::OkStatus();
}

absl::StatusOr<Manifest> ClusterCheckpoints::Take(const ClusterMap& map,
                                                  const std::function<void(Manifest&)>& capture,
                                                  const std::function<void()>& after_cut,
                                                  WorkProgress& progress) {
  const uint64_t checkpoint_id = ++last_checkpoint_id_;
  Manifest manifest;
  manifest.checkpoint_id = checkpoint_id;
  manifest.created_unix_ms = absl::ToUnixMillis(absl::Now());
  manifest.topology_version = map.topology_version;
  manifest.restore_count = restore_count_;
  manifest.evicted = store_->Evicted();
  std::optional<Manifest> base = FindBase(map);
  progress.Begin("waiting for a good moment");
  absl::Status status = AwaitGoodMoment(map, checkpoint_id, progress);
  const absl::Duration start = clock_->Now();  // what comes before costs nothing
  if (status.ok()) status = MakeCuts(map, base, capture, manifest, progress);
  after_cut();
  const absl::Duration frozen = clock_->Now() - start;
  if (!status.ok()) {
    if (const absl::Status ended = Abort(map, checkpoint_id, kAbortAttempts); !ended.ok()) {
      LogWarning("steps may stand still until the freeze of a cluster checkpoint ends by itself",
                 {{"checkpoint_id", checkpoint_id},
                  {"seconds", absl::ToInt64Seconds(FreezeLimit())},
                  {"error", ended.message()}});
    }
    return status;
  }
  status = AwaitParts(map, base.has_value() ? &*base : nullptr, manifest, progress);
  // The last moment: whoever cancels it later gets a checkpoint.
  if (!progress.Check().ok()) status = progress.Check();
  if (!status.ok()) {
    // What is still being written is for nothing. Nobody waits for it: once is enough.
    Abort(map, checkpoint_id, /*attempts=*/1).IgnoreError();
    return status;
  }
  progress.Begin("committing");
  DSLIDE_FAILPOINT("coordinator.manifest.prepared");
  manifest.duration_us = absl::ToInt64Microseconds(clock_->Now() - start);
  RETURN_IF_ERROR(store_->Commit(manifest));
  DSLIDE_FAILPOINT("coordinator.manifest.committed");
  LogInfo("cluster checkpoint committed",
          {{"checkpoint_id", checkpoint_id},
           {"clients", manifest.steps.size()},
           {"written", SummaryOf(manifest).written_bytes()},
           {"stall", absl::FormatDuration(absl::Microseconds(manifest.stall_us))},
           {"frozen", absl::FormatDuration(frozen)},
           {"duration", absl::FormatDuration(absl::Microseconds(manifest.duration_us))}});
  if (const absl::Status named = store_->KeepEvicted({}); !named.ok()) {
    LogWarning("the next cluster checkpoint names clients again that were given up for this one",
               {{"error", named.message()}});
  }
  // What is left over takes room, and harms nobody.
  if (const auto pruned = Prune(map, options_.keep); !pruned.ok()) {
    LogWarning("cannot remove old cluster checkpoints", {{"error", pruned.status().message()}});
  }
  return manifest;
}

absl::StatusOr<std::vector<Manifest>> ClusterCheckpoints::List() const {
  std::vector<Manifest> manifests;
  for (const uint64_t checkpoint_id : store_->List()) {
    ASSIGN_OR_RETURN(Manifest manifest, store_->Read(checkpoint_id));
    manifest.damage = store_->Damage(checkpoint_id);
    manifests.push_back(std::move(manifest));
  }
  return manifests;
}

absl::StatusOr<Manifest> ClusterCheckpoints::Read(uint64_t checkpoint_id) const {
  if (checkpoint_id != 0) return store_->Read(checkpoint_id);
  const std::vector<uint64_t> committed = store_->List();
  if (!committed.empty()) return store_->Read(committed.front());
  return NoneTaken();
}

absl::StatusOr<Manifest> ClusterCheckpoints::Verify(const ClusterMap& map, uint64_t checkpoint_id,
                                                    WorkProgress& progress) const {
  ASSIGN_OR_RETURN(Manifest manifest, Read(checkpoint_id));
  RETURN_IF_ERROR(VerifyParts(map, manifest, progress));
  return manifest;
}

absl::Status ClusterCheckpoints::VerifyParts(const ClusterMap& map, const Manifest& manifest,
                                             WorkProgress& progress, PartCheck check) const {
  RETURN_IF_ERROR(CheckShards(map, manifest));
  progress.Begin("verifying", map.shards.size());
  absl::Status verified =
      OnAll(map, What("verifying", manifest.checkpoint_id), [&](size_t i) -> absl::Status {
        RETURN_IF_ERROR(progress.Check());
        RETURN_IF_ERROR((shards_->*check)(map.shards[i].address, manifest.checkpoint_id,
                                          manifest.parts[i].files_checksum, options_.write_timeout,
                                          progress));
        progress.ShardDone();
        return absl::OkStatus();
      });
  RETURN_IF_ERROR(progress.Check());
  RETURN_IF_ERROR(verified);
  return VerifyAssets(manifest, *assets_, progress);
}

absl::Status ClusterCheckpoints::MarkDamage(uint64_t checkpoint_id, const std::string& damage) {
  return store_->MarkDamage(checkpoint_id, damage);
}

absl::StatusOr<ClusterCheckpoints::Choice> ClusterCheckpoints::NewestWhole() const {
  Choice choice;
  for (const uint64_t checkpoint_id : store_->List()) {
    if (store_->Damage(checkpoint_id).empty()) {
      choice.checkpoint_id = checkpoint_id;
      return choice;
    }
    choice.skipped.push_back(checkpoint_id);
  }
  if (choice.skipped.empty()) return NoneTaken();
  return absl::DataLossError(
      absl::StrCat("all ", choice.skipped.size(), " cluster checkpoints are damaged, the newest (",
                   choice.skipped.front(), "): ", store_->Damage(choice.skipped.front()),
                   "; bring one back from a copy: dslide checkpoint restore --from DIR"));
}

absl::StatusOr<std::string> ClusterCheckpoints::Text(uint64_t checkpoint_id) const {
  ASSIGN_OR_RETURN(const Manifest manifest, Read(checkpoint_id));
  return store_->ReadText(manifest.checkpoint_id);
}

absl::StatusOr<Manifest> ClusterCheckpoints::Adopt(const ClusterMap& map, const std::string& text,
                                                   WorkProgress& progress) {
  ASSIGN_OR_RETURN(Manifest manifest, DecodeManifest(text));
  const absl::StatusOr<std::string> present = store_->ReadText(manifest.checkpoint_id);
  if (present.ok() && *present != text) {
    return absl::AlreadyExistsError(
        absl::StrCat("another cluster checkpoint has the number ", manifest.checkpoint_id,
                     " here: remove it (dslide checkpoint prune), or restore another copy"));
  }
  RETURN_IF_ERROR(TakeInAssets(manifest, *assets_));
  RETURN_IF_ERROR(VerifyParts(map, manifest, progress));
  if (!present.ok()) RETURN_IF_ERROR(store_->Commit(manifest));
  RETURN_IF_ERROR(store_->MarkDamage(manifest.checkpoint_id, ""));
  last_checkpoint_id_ = std::max(last_checkpoint_id_, manifest.checkpoint_id);
  LogInfo("cluster checkpoint taken in from a copy", {{"checkpoint_id", manifest.checkpoint_id}});
  return manifest;
}

absl::StatusOr<Manifest> ClusterCheckpoints::Rollback(const ClusterMap& map, uint64_t checkpoint_id,
                                                      WorkProgress& progress) {
  ASSIGN_OR_RETURN(Manifest manifest, Read(checkpoint_id));
  // Says at its end whether the restore is to end; later it is too late.
  if (absl::Status checked = VerifyParts(map, manifest, progress, &ShardAdmin::PrepareRollback);
      !checked.ok()) {
    // A shard that does not hear it drops what it has read at the next checkpoint.
    Abort(map, manifest.checkpoint_id, /*attempts=*/1).IgnoreError();
    return checked;
  }
  DSLIDE_FAILPOINT("coordinator.rollback.verified");
  RETURN_IF_ERROR(store_->restore_mark().Begin(manifest.checkpoint_id));
  // First: whoever sees a shard of the new state sees the new number too, or waits for it.
  RETURN_IF_ERROR(store_->CommitRestoreCount(restore_count_ + 1));
  DSLIDE_FAILPOINT("coordinator.rollback.numbered");
  progress.Begin("restoring", map.shards.size());
  RETURN_IF_ERROR(
      OnAll(map, What("going back to", manifest.checkpoint_id), [&](size_t i) -> absl::Status {
        RETURN_IF_ERROR(shards_
                            ->Rollback(map.shards[i].address, manifest.checkpoint_id,
                                       manifest.parts[i].files_checksum, options_.write_timeout)
                            .status());
        progress.ShardDone();
        return absl::OkStatus();
      }));
  DSLIDE_FAILPOINT("coordinator.rollback.shards_done");
  ++restore_count_;
  // The rows are those of the manifest, and what it says of its clients.
  RETURN_IF_ERROR(store_->KeepEvicted({}));
  LogWarning("the cluster was taken back to a checkpoint",
             {{"checkpoint_id", manifest.checkpoint_id}});
  return manifest;
}

absl::StatusOr<std::vector<uint64_t>> ClusterCheckpoints::Prune(const ClusterMap& map,
                                                                int64_t keep) {
  std::vector<uint64_t> stay = store_->List();
  std::vector<uint64_t> removed;
  while (static_cast<int64_t>(stay.size()) > keep) {
    // The manifest goes first. A part without a manifest is not a checkpoint.
    RETURN_IF_ERROR(store_->Remove(stay.back()));
    DSLIDE_FAILPOINT("coordinator.manifest.removed");
    removed.push_back(stay.back());
    stay.pop_back();
  }
  RetainAssets(*store_, *assets_);
  RETURN_IF_ERROR(OnAll(map, "removing old cluster checkpoints", [&](size_t i) {
    return shards_->RetainCheckpoints(map.shards[i].address, stay, options_.call_timeout);
  }));
  return removed;
}

}  // namespace dslide::coordinator

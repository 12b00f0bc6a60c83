#include "tests/simulation/nodes/shard_calls.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/shard_host.h"

namespace dslide::simulation {
namespace {

constexpr absl::string_view kPrefix = "shard-";
constexpr double kKillRate = 0.004;  // of a call
constexpr double kKillRateAtRestore = 0.15;

using coordinator::PartProgress;

int ShardOf(absl::string_view address) {
  int shard = 0;
  return absl::SimpleAtoi(address.substr(kPrefix.size()), &shard) ? shard : 0;
}

PartProgress FromShard(const shard::CheckpointProgress& part) {
  using State = shard::CheckpointProgress::State;
  PartProgress progress;
  progress.rows = part.rows;
  progress.files = part.files.files;
  progress.bytes = part.files.bytes;
  progress.files_checksum = part.files.checksum;
  progress.base_checkpoint_id = part.base_checkpoint_id;
  progress.written_bytes = part.written_bytes;
  progress.error = std::string(part.error.message());
  progress.state = part.state == State::kWriting    ? PartProgress::State::kWriting
                   : part.state == State::kPrepared ? PartProgress::State::kPrepared
                   : part.state == State::kFailed   ? PartProgress::State::kFailed
                                                    : PartProgress::State::kUnknown;
  return progress;
}

}  // namespace

std::string ShardCalls::AddressOf(int shard) { return absl::StrCat(kPrefix, shard); }

void ShardCalls::MaybeKill(Fault phase, const std::string& address) {
  // There are few restores, and many questions after steps.
  const double rate = phase == Fault::kKillAtRestore ? kKillRateAtRestore : kKillRate;
  if (!world_.faults_on || !node_->alive() || !world_.Chance(rate)) return;
  world_.trace.Note(phase);
  const absl::Duration pause = world_.Between(absl::Milliseconds(50), absl::Milliseconds(400));
  if (world_.Chance(0.5) && world_.coordinator->up()) return world_.coordinator->Kill(pause);
  world_.shards[static_cast<size_t>(ShardOf(address))]->Crash(world_.Chance(0.5), pause);
}

template <typename T>
absl::StatusOr<T> ShardCalls::Ask(const std::string& address, absl::Duration timeout,
                                  std::function<void(ShardProcess&, Done<T>)> ask) {
  if (!node_->alive()) return absl::UnavailableError("the coordinator has died");
  auto result = std::make_shared<std::optional<absl::StatusOr<T>>>();  // shared with the answer
  ShardHost& host = *world_.shards[static_cast<size_t>(ShardOf(address))];
  if (!host.up()) {
    Node::After(node_, absl::Milliseconds(1),
                [result] { *result = absl::UnavailableError("connection refused"); });
  } else {
    ShardProcess* const process = host.process();
    world_.network.Call<absl::StatusOr<T>>(
        node_, process->node(), timeout,
        [process, ask = std::move(ask)](Done<T> done) { ask(*process, std::move(done)); },
        [result](std::optional<absl::StatusOr<T>> answer) {
          *result = answer.has_value() ? *std::move(answer)
                                       : absl::StatusOr<T>(absl::DeadlineExceededError("silence"));
        });
  }
  world_.loop.RunUntil(absl::InfiniteDuration(),
                       [&] { return result->has_value() || !node_->alive(); });
  if (!node_->alive()) return absl::UnavailableError("the coordinator has died");
  return **std::move(result);
}

absl::StatusOr<bool> ShardCalls::CreateModel(const std::string& address,
                                             const CreateModelCommand& command,
                                             absl::Duration timeout) {
  return Ask<bool>(address, timeout, [command](ShardProcess& shard, Done<bool> done) {
    shard.CreateModel(command, [done](const ShardAnswer& answer) {
      if (!answer.reply->status.ok()) return done(answer.reply->status);
      done(std::get<CreateModelReply>(answer.reply->body).created);
    });
  });
}

template <typename T>
absl::StatusOr<T> ShardCalls::AskCore(const std::string& address, absl::Duration timeout,
                                      CoreQuestion<T> ask, shard::QueuePlace place) {
  return Ask<T>(address, timeout, [=](ShardProcess& shard, Done<T> done) {
    const absl::Status queued = shard.sequencer().SubmitTask(
        [&shard, ask, done](shard::ShardCore& core) { done(ask(shard, core)); }, place);
    if (!queued.ok()) done(queued);
  });
}

absl::StatusOr<absl::Duration> ShardCalls::EstimateFreezeDelay(const std::string& address,
                                                               uint64_t generation,
                                                               absl::Duration timeout) {
  return AskCore<absl::Duration>(address, timeout,
                                 [=](ShardProcess& shard, shard::ShardCore& core) {
                                   return shard.participant().EstimateFreezeDelay(core, generation);
                                 });
}

absl::StatusOr<std::vector<ClientStep>> ShardCalls::FreezeSteps(const std::string& address,
                                                                uint64_t checkpoint_id,
                                                                uint64_t generation,
                                                                absl::Duration limit,
                                                                absl::Duration timeout) {
  MaybeKill(Fault::kKillAtFreeze, address);
  return AskCore<std::vector<ClientStep>>(
      address, timeout, [=](ShardProcess& shard, shard::ShardCore& core) {
        return shard.Freeze(core, checkpoint_id, generation, limit);
      });
}

absl::StatusOr<std::vector<ClientStep>> ShardCalls::AdmitSteps(const std::string& address,
                                                               uint64_t checkpoint_id,
                                                               const std::vector<ClientStep>& up_to,
                                                               const std::vector<ClientId>& evict,
                                                               absl::Duration timeout) {
  MaybeKill(Fault::kKillAtAdmit, address);
  return AskCore<std::vector<ClientStep>>(address, timeout,
                                          [=](ShardProcess& shard, shard::ShardCore& core) {
                                            return shard.Admit(core, checkpoint_id, up_to, evict);
                                          });
}

absl::StatusOr<absl::Duration> ShardCalls::CutCheckpoint(const std::string& address,
                                                         uint64_t checkpoint_id,
                                                         const coordinator::PartBase& base,
                                                         absl::Duration timeout) {
  MaybeKill(Fault::kKillAtCut, address);
  return AskCore<absl::Duration>(
      address, timeout,
      [=](ShardProcess& shard, shard::ShardCore& core) -> absl::StatusOr<absl::Duration> {
        ASSIGN_OR_RETURN(const shard::CutSize cut,
                         shard.Cut(core, checkpoint_id, {base.checkpoint_id, base.files_checksum}));
        return cut.stall;
      });
}

absl::Status ShardCalls::AbortCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                         absl::Duration timeout) {
  MaybeKill(Fault::kKillAtCut, address);
  return AskCore<bool>(address, timeout,
                       [=](ShardProcess& shard, shard::ShardCore& core) {
                         shard.participant().Abort(core, checkpoint_id);
                         return true;
                       })
      .status();
}

absl::StatusOr<PartProgress> ShardCalls::CheckpointProgress(const std::string& address,
                                                            uint64_t checkpoint_id,
                                                            absl::Duration timeout) {
  MaybeKill(Fault::kKillAtWrite, address);
  const bool hasty = world_.settings.bug == Bug::kCommitBeforeParts;
  return Ask<PartProgress>(address, timeout, [=](ShardProcess& shard, Done<PartProgress> done) {
    PartProgress progress = FromShard(shard.parts().Progress(checkpoint_id));
    if (hasty) progress.state = PartProgress::State::kPrepared;
    done(std::move(progress));
  });
}

absl::Status ShardCalls::VerifyCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                          uint32_t files_checksum, absl::Duration timeout,
                                          coordinator::WorkProgress&) {
  return Ask<bool>(address, timeout,
                   [=](ShardProcess& shard, Done<bool> done) {
                     const auto files =
                         shard::VerifyPart(shard.parts(), checkpoint_id, files_checksum);
                     files.ok() ? done(true) : done(files.status());
                   })
      .status();
}

absl::Status ShardCalls::PrepareRollback(const std::string& address, uint64_t checkpoint_id,
                                         uint32_t files_checksum, absl::Duration timeout,
                                         coordinator::WorkProgress&) {
  return Ask<bool>(address, timeout,
                   [=](ShardProcess& shard, Done<bool> done) {
                     const auto files =
                         shard.participant().PrepareRollback(checkpoint_id, files_checksum);
                     files.ok() ? done(true) : done(files.status());
                   })
      .status();
}

absl::Status ShardCalls::RetainCheckpoints(const std::string& address,
                                           const std::vector<uint64_t>& checkpoint_ids,
                                           absl::Duration timeout) {
  return Ask<bool>(address, timeout,
                   [=](ShardProcess& shard, Done<bool> done) {
                     const auto removed = shard.parts().Retain(checkpoint_ids);
                     removed.ok() ? done(true) : done(removed.status());
                   })
      .status();
}

absl::StatusOr<int64_t> ShardCalls::Rollback(const std::string& address, uint64_t checkpoint_id,
                                             uint32_t files_checksum, absl::Duration timeout) {
  MaybeKill(Fault::kKillAtRestore, address);
  return AskCore<int64_t>(
      address, timeout,
      [=](ShardProcess& shard, shard::ShardCore& core) -> absl::StatusOr<int64_t> {
        RETURN_IF_ERROR(shard.Rollback(core, checkpoint_id, files_checksum));
        return 0;
      },
      shard::QueuePlace::kBack);
}

absl::Status ShardCalls::DropModel(const std::string&, const std::string&, absl::Duration) {
  return absl::UnimplementedError("DropModel is not simulated");
}

absl::StatusOr<coordinator::CheckpointSize> ShardCalls::WriteCheckpoint(
    const std::string&, const std::string&, const std::string&, const std::vector<std::string>&,
    absl::Duration) {
  return absl::UnimplementedError("WriteCheckpoint is not simulated");
}

absl::StatusOr<int64_t> ShardCalls::LoadCheckpoint(const std::string&, const std::string&,
                                                   const std::string&, absl::Duration) {
  return absl::UnimplementedError("LoadCheckpoint is not simulated");
}

}  // namespace dslide::simulation

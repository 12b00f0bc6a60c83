#include "tests/simulation/nodes/shard_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/control_codec.h"
#include "core/wire/steps/step_request.h"
#include "services/shard/durability/durable_state.h"
#include "services/shard/state/core_state.h"
#include "tests/simulation/nodes/coordinator_host.h"

namespace dslide::simulation {
namespace {

using shard::ShardCore;

constexpr absl::Duration kTurnTime = absl::Microseconds(20);
constexpr absl::Duration kHeartbeat = absl::Milliseconds(400);
constexpr absl::Duration kHeartbeatOfWaiting = absl::Milliseconds(40);
constexpr absl::Duration kImagePause = absl::Milliseconds(3);
constexpr int64_t kImageRows = 16;
constexpr uint64_t kImageEvery = 60;  // records
constexpr size_t kKeptImages = 2;

shard::ShardCoreOptions CoreOptions() {
  shard::ShardCoreOptions options;
  options.parallelism.threads = 1;
  return options;
}

ShardAnswer Refused(absl::Status status) {
  auto reply = std::make_shared<Reply>();
  reply->status = std::move(status);
  return {.reply = std::move(reply)};
}

}  // namespace

ShardProcess::ShardProcess(World& world, int shard, NodePtr node, ShardDisk& disk, bool power,
                           std::function<void()> on_end)
    : world_(world),
      shard_(shard),
      node_(std::move(node)),
      disk_(disk),
      power_(power),
      on_end_(std::move(on_end)),
      logs_(world.settings.mode != shard::Durability::kCheckpoint),
      instance_id_(absl::StrFormat("%016d", world.rng.NextBelow(1'000'000'000'000'000))),
      core_(std::make_unique<ShardCore>(CoreOptions())),
      stages_(world.loop),
      shard_metrics_(metrics_, stages_) {}

absl::Status ShardProcess::Restore() {
  if (!disk_.logs) {
    disk_.logs = true;
    disk_.images = {ImageOf(0, *core_)};
  }
  const MemoryImage& image = disk_.images.front();
  RETURN_IF_ERROR(RestoreImage(image, *core_));
  uint64_t applied = image.lsn;
  ASSIGN_OR_RETURN(
      const LogRead found,
      ReadLog(world_.settings.bug, disk_.log, [&](const shard::LogRecord& record) -> absl::Status {
        if (record.lsn <= applied) return absl::OkStatus();
        if (record.lsn != ++applied) return absl::DataLossError("records are missing");
        return shard::ReplayRecord(record, *core_);
      }));
  if (found.last < image.lsn) {
    return absl::DataLossError(
        absl::StrCat("the log ends at ", found.last, ", the image at ", image.lsn));
  }
  if (world_.settings.bug == Bug::kDedupLostAtRestart) {
    core_->mutable_clients() = shard::ClientTable(core_->limits().clients);
  }
  image_at_ = image.lsn;
  world_.oracle.Recovered(shard_, found.last, power_, *core_);
  StartLog(found);
  return absl::OkStatus();
}

void ShardProcess::StartLog(const LogRead& found) {
  LogDevice::Options options{
      .sync_time = world_.Between(absl::Milliseconds(2), absl::Milliseconds(12)),
      .bug = world_.settings.bug};
  if (world_.settings.mode == shard::Durability::kLogPeriodic) {
    options.sync_interval = absl::Milliseconds(60);
  }
  log_ = std::make_unique<LogDevice>(node_, options, found, world_.trace, disk_.log);
  log_->set_hooks(
      {.on_durable =
           [this](uint64_t lsn) {
             if (sequencer_ == nullptr) return;
             sequencer_->OnDurable(lsn);
             Poke(absl::ZeroDuration());
           },
       .on_failed = [this](const absl::Status& why) { Fail(why); },
       .on_append =
           [this](const shard::LogRecord& record) { world_.oracle.Appended(shard_, record); }});
}

absl::Status ShardProcess::Start() {
  if (logs_) RETURN_IF_ERROR(Restore());
  life_ = world_.oracle.life(shard_);
  shard::SequencerLog log;
  if (logs_) {
    log = {.log = log_.get(),
           .answers_wait = world_.settings.mode == shard::Durability::kLog,
           .after_logged = [this](ShardCore& core) { MaybeTakeImage(core); }};
  }
  sequencer_ = std::make_unique<shard::Sequencer>(*core_, shard::SequencerOptions{.threads = false},
                                                  shard_metrics_, world_.loop, std::move(log));
  admission_ = std::make_unique<shard::ClientAdmission>(
      sequencer_.get(), /*knows_clients=*/logs_ || world_.settings.bug == Bug::kGreetsTooEarly);
  shard::ParticipantHooks hooks;
  hooks.settle = [this](ShardCore& core) { return SettleTables(core); };
  if (logs_) {
    hooks.rows_replaced = [this](ShardCore& core) { return ForceImage(core); };
    Task(
        [this](ShardCore& core) -> absl::Status {
          const std::string bytes = shard::EncodeLimits(core.limits());
          const absl::string_view piece = bytes;
          return log_->Append(static_cast<uint8_t>(wire::LoggedKind::kLimits), {piece}).status();
        },
        [this](const absl::Status& begun) {
          if (!begun.ok()) Fail(begun);
        });
  }
  hooks.on_rolled_back = [this] { admission_->OnRolledBack(); };
  hooks.on_broken = [this](const absl::Status& why) { Fail(why); };
  hooks.make_core = [] { return ShardCore(CoreOptions()); };
  parts_ = std::make_unique<PartStore>(node_, world_.settings.bug, world_.trace, disk_.parts);
  participant_ = std::make_unique<shard::CheckpointParticipant>(sequencer_.get(), parts_.get(),
                                                                std::move(hooks));
  Register();
  return absl::OkStatus();
}

// --- Calls

void ShardProcess::Submit(shard::Sequencer::Request request, Respond respond) {
  // An answer may wait for the disk, and be given when its state is gone already.
  const auto life = std::make_shared<int64_t>(life_);  // shared by the two
  request.admit = [this, life] {
    *life = life_;
    return absl::OkStatus();
  };
  request.done = [this, respond, life](const shard::Answer& answer) {
    world_.trace.Note("answer", {shard_, static_cast<int64_t>(answer.reply->status.code()),
                                 answer.repeated ? 1 : 0});
    respond({.reply = answer.reply, .generation = answer.generation, .life = *life});
  };
  const absl::Status submitted = sequencer_->Submit(std::move(request));
  if (!submitted.ok()) return respond(Refused(submitted));
  Poke(kTurnTime);
}

void ShardProcess::Hello(const HelloCommand& command, Respond respond) {
  v1::HelloRequest bytes;
  wire::EncodeHello(command, &bytes);
  shard::Sequencer::Request request;
  request.command = command;
  request.logged = wire::LogBytes(wire::LoggedKind::kHello, bytes.SerializeAsString());
  request.control = true;
  Submit(std::move(request), std::move(respond));
}

void ShardProcess::Step(const std::string& bytes, Respond respond) {
  const auto memory = std::make_shared<const std::string>(bytes);  // shared with the log's record
  const absl::string_view piece = *memory;
  v1::StepRequest parsed;
  absl::Status readable = wire::ParseStepRequest({piece}, &parsed);
  if (!readable.ok()) return respond(Refused(std::move(readable)));
  absl::StatusOr<Command> command = wire::DecodeStepMutation(parsed);
  if (!command.ok()) return respond(Refused(command.status()));
  shard::Sequencer::Request request;
  if (const auto* refused = std::get_if<RefusedCommand>(&*command)) {
    request.logged = wire::LogRefused(*refused);
  } else {
    request.logged = {.kind = wire::LoggedKind::kStep, .payload = {piece}, .memory = {memory}};
  }
  request.command = *std::move(command);
  Submit(std::move(request), std::move(respond));
}

void ShardProcess::Scatter(const std::string& bytes, Respond respond) {
  const auto memory = std::make_shared<const std::string>(bytes);  // shared with the log's record
  const absl::string_view piece = *memory;
  wire::ScatterAssembler assembler(1 << 20);
  absl::Status added = assembler.Add({piece}, memory);
  if (!added.ok()) return respond(Refused(std::move(added)));
  absl::StatusOr<ScatterCommand> command = std::move(assembler).Finish();
  if (!command.ok()) return respond(Refused(command.status()));
  shard::Sequencer::Request request;
  wire::AddScatterMessage({piece}, memory, &request.logged);
  request.command = *std::move(command);
  Submit(std::move(request), std::move(respond));
}

void ShardProcess::Gather(const GatherCommand& command, Respond respond) {
  shard::Sequencer::Request request;
  request.command = command;
  Submit(std::move(request), std::move(respond));
}

void ShardProcess::CreateModel(const CreateModelCommand& command, Respond respond) {
  v1::CreateModelRequest bytes;
  wire::EncodeCreateModel(command, &bytes);
  shard::Sequencer::Request request;
  request.command = command;
  request.logged = wire::LogBytes(wire::LoggedKind::kCreateModel, bytes.SerializeAsString());
  request.control = true;
  Submit(std::move(request), std::move(respond));
}

void ShardProcess::Task(std::function<absl::Status(ShardCore&)> task,
                        std::function<void(absl::Status)> done, shard::QueuePlace place) {
  const absl::Status queued = sequencer_->SubmitTask(
      [task = std::move(task), done](ShardCore& core) { done(task(core)); }, place);
  if (!queued.ok()) return done(queued);
  Poke(kTurnTime);
}

absl::StatusOr<std::vector<ClientStep>> ShardProcess::Freeze(ShardCore& core,
                                                             uint64_t checkpoint_id,
                                                             uint64_t generation,
                                                             absl::Duration limit) {
  if (world_.settings.bug == Bug::kCutWithoutHolding) {
    return shard::StepGate::Changed(core.contexts());
  }
  return participant_->Freeze(core, checkpoint_id, generation, limit);
}

absl::StatusOr<std::vector<ClientStep>> ShardProcess::Admit(ShardCore& core, uint64_t checkpoint_id,
                                                            const std::vector<ClientStep>& up_to,
                                                            const std::vector<ClientId>& evict) {
  if (world_.settings.bug == Bug::kCutWithoutHolding) return std::vector<ClientStep>();
  for (const ClientId& client : evict) world_.oracle.Evicted(client);
  return participant_->Admit(core, checkpoint_id, up_to, evict);
}

absl::Status ShardProcess::Abort(ShardCore& core, uint64_t checkpoint_id) {
  participant_->Abort(core, checkpoint_id);
  return absl::OkStatus();
}

absl::StatusOr<shard::CutSize> ShardProcess::Cut(ShardCore& core, uint64_t checkpoint_id,
                                                 const shard::PartBase& base) {
  if (world_.settings.bug == Bug::kCutWithoutHolding) {
    RETURN_IF_ERROR(
        participant_->Freeze(core, checkpoint_id, core.generation(), absl::Seconds(1)).status());
  }
  return participant_->Cut(core, checkpoint_id, base);
}

absl::Status ShardProcess::Rollback(ShardCore& core, uint64_t checkpoint_id, uint32_t checksum) {
  RETURN_IF_ERROR(participant_->Rollback(core, checkpoint_id, checksum).status());
  world_.trace.Note("went back", {shard_, static_cast<int64_t>(checkpoint_id)});
  world_.oracle.WentBack(shard_, *disk_.parts.parts.at(checkpoint_id), core);
  life_ = world_.oracle.life(shard_);
  return absl::OkStatus();
}

void ShardProcess::Compare() {
  if (logs_) world_.oracle.CompareWithTwin(shard_, log_->appended(), *core_);
}

// --- The sequencer's turns

void ShardProcess::Poke(absl::Duration pause) {
  if (turning_) return;
  turning_ = true;
  Node::After(node_, pause, [this] { RunOnce(); });
}

void ShardProcess::RunOnce() {
  turning_ = false;
  if (sequencer_->RunOnce()) Poke(kTurnTime);
  const absl::Duration wake_at = sequencer_->WakeAt();
  if (wake_at == wake_at_ || wake_at == absl::InfiniteDuration()) return;
  wake_at_ = wake_at;
  Node::After(node_, wake_at - world_.loop.Now(), [this] { RunOnce(); });
}

void ShardProcess::Fail(const absl::Status& why) {
  world_.trace.Note("shard fails", {shard_});
  if (sequencer_ != nullptr) {
    sequencer_->OnLogFailed(why);
    Poke(absl::ZeroDuration());
  }
  // It ends within a moment; what it has answered by then counts.
  Node::After(node_, absl::Milliseconds(1), on_end_);
}

// --- Images of a shard with a log

absl::StatusOr<uint64_t> ShardProcess::SettleTables(ShardCore& core) {
  uint64_t lsn = 0;
  if (logs_) {
    ASSIGN_OR_RETURN(lsn, log_->Append(static_cast<uint8_t>(wire::LoggedKind::kSettle), {}));
  }
  core.SettleTables();
  return lsn;
}

absl::Status ShardProcess::ForceImage(ShardCore& core) {
  // An older one that is still being written is given up.
  image_running_ = false;
  ASSIGN_OR_RETURN(const uint64_t lsn, SettleTables(core));
  image_at_ = lsn;
  RETURN_IF_ERROR(log_->Sync());
  MemoryImage image = ImageOf(lsn, core);
  world_.oracle.Forced(shard_, image);
  Publish(std::move(image));
  return absl::OkStatus();
}

void ShardProcess::MaybeTakeImage(ShardCore& core) {
  if (image_running_ || log_->appended() < image_at_ + kImageEvery) return;
  if (shard::ShardSnapshot::Active(core)) return;
  image_at_ = log_->appended();
  const absl::StatusOr<uint64_t> lsn = SettleTables(core);
  if (!lsn.ok()) return;
  image_running_ = true;
  // Shared by the steps of the writing.
  const std::shared_ptr<shard::ShardSnapshot> snapshot = shard::ShardSnapshot::Take(*lsn, core);
  WriteImage(snapshot, std::make_shared<ImageWriter>(*snapshot, /*without_copies=*/false));
}

void ShardProcess::WriteImage(const std::shared_ptr<shard::ShardSnapshot>& snapshot,
                              const std::shared_ptr<ImageWriter>& writer) {
  Node::After(node_, kImagePause, [this, snapshot, writer, began = image_at_] {
    const auto evicted = [this, began] { return !image_running_ || image_at_ != began; };
    if (evicted()) return snapshot->Release();
    if (!writer->WriteSome(kImageRows)) return WriteImage(snapshot, writer);
    const absl::Status synced = log_->Sync();
    Task(
        [this, snapshot, writer, synced, evicted](ShardCore&) {
          snapshot->Release();
          if (evicted()) return absl::OkStatus();
          image_running_ = false;
          if (synced.ok()) Publish(writer->Take());
          return synced;
        },
        [](const absl::Status&) {});
  });
}

void ShardProcess::Publish(MemoryImage image) {
  world_.trace.Note("image", {shard_, static_cast<int64_t>(image.lsn), image.Checksum()});
  disk_.images.insert(disk_.images.begin(), std::move(image));
  if (disk_.images.size() > kKeptImages) disk_.images.resize(kKeptImages);
  log_->Trim(disk_.images.back().lsn + 1);
}

// --- The coordinator

void ShardProcess::Register() {
  CoordinatorHost::Register(world_, node_, shard_, instance_id_, logs_ && !core_->models().empty(),
                            [this](const absl::StatusOr<RegistrationAnswer>& answer) {
                              if (answer.ok()) {
                                OnOwned(ShardId(shard_), *answer);
                              } else if (absl::IsFailedPrecondition(answer.status())) {
                                OnFenced();
                              } else {
                                Node::After(node_, absl::Milliseconds(50), [this] { Register(); });
                              }
                            });
}

void ShardProcess::OnOwned(ShardId shard_id, const RegistrationAnswer& answer) {
  Task(
      [this, shard_id, answer](ShardCore& core) -> absl::Status {
        const SetOwnershipCommand own{.shard = shard_id, .generation = answer.generation};
        RETURN_IF_ERROR(sequencer_->ApplyInTask(core, own, wire::LogOwnership(own)).reply->status);
        admission_->OnOwned(answer.rollback_pending);
        owned_ = true;
        world_.trace.Note("owned", {shard_, static_cast<int64_t>(answer.generation),
                                    admission_->waiting() ? 1 : 0});
        return absl::OkStatus();
      },
      [this](const absl::Status& owned) {
        if (!owned.ok()) {
          Node::After(node_, absl::Milliseconds(50), [this] { Register(); });
        } else {
          HeartbeatLater();
        }
      });
}

void ShardProcess::HeartbeatLater() {
  Node::After(node_, admission_->waiting() ? kHeartbeatOfWaiting : kHeartbeat,
              [this] { Heartbeat(); });
}

void ShardProcess::Heartbeat() {
  CoordinatorHost::Heartbeat(world_, node_, shard_, generation(),
                             [this](const absl::StatusOr<bool>& rollback_pending) {
                               if (absl::IsFailedPrecondition(rollback_pending.status())) {
                                 return OnFenced();
                               }
                               if (absl::IsNotFound(rollback_pending.status())) return Register();
                               if (rollback_pending.ok())
                                 admission_->OnHeartbeat(*rollback_pending);
                               HeartbeatLater();
                             });
}

void ShardProcess::OnFenced() {
  world_.trace.Note("fenced", {shard_});
  sequencer_->Fence(StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kFenced,
                                     "this shard process was replaced by a newer one"));
  Node::After(node_, absl::Milliseconds(1), on_end_);
}

}  // namespace dslide::simulation

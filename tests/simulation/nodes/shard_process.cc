#include "tests/simulation/nodes/shard_process.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/control_codec.h"
#include "core/wire/steps/step_request.h"
#include "services/shard/image/image_label.h"
#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/log_device.h"

namespace dslide::simulation {
namespace {

using shard::ShardCore;

constexpr absl::Duration kTurnTime = absl::Microseconds(20);
constexpr absl::Duration kHeartbeat = absl::Milliseconds(400);
constexpr absl::Duration kHeartbeatOfWaiting = absl::Milliseconds(40);
constexpr int64_t kImageEveryBytes = 5'000;  // some sixty records

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
      stages_(world.loop),
      shard_metrics_(metrics_, stages_),
      part_images_(node_, world.trace, disk.parts,
                   /*without_copies=*/world.settings.bug == Bug::kPartWithoutCopies),
      parts_(&part_images_, &world.loop) {}

absl::Status ShardProcess::Restore(std::unique_ptr<ShardCore>& core) {
  shard::DurableStateParts parts{
      .images = std::make_unique<MemoryImages>(node_, world_.trace, disk_.images),
      .open_log = [this](auto visit) { return OpenLog(visit); },
      .durability = {.mode = world_.settings.mode, .image_every_bytes = kImageEveryBytes},
      .clock = &world_.loop};
  if (disk_.images.images.empty()) {
    RETURN_IF_ERROR(parts.images->Write(shard::LogLabel({}), /*lsn=*/0, *core));
  }
  ASSIGN_OR_RETURN(durable_, shard::DurableState::Restore(
                                 std::move(parts),
                                 [] { return std::make_unique<ShardCore>(CoreOptions()); }, &core));
  if (world_.settings.bug == Bug::kDedupLostAtRestart) {
    core->mutable_clients() = shard::ClientTable(core->limits().clients);
  }
  world_.oracle.Recovered(shard_, durable_->recovery().last_lsn, power_, *core);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<shard::ShardLog>> ShardProcess::OpenLog(
    shard::DurableStateParts::Visit visit) {
  ASSIGN_OR_RETURN(const LogRead found, ReadLog(world_.settings.bug, disk_.log, visit));
  LogDevice::Options options{
      .sync_time = world_.Between(absl::Milliseconds(2), absl::Milliseconds(12)),
      .bug = world_.settings.bug,
      .on_append = [this](const shard::LogRecord& record) {
        world_.oracle.Appended(shard_, record);
      }};
  if (world_.settings.mode == shard::Durability::kLogPeriodic) {
    options.sync_interval = absl::Milliseconds(60);
  }
  return std::make_unique<LogDevice>(node_, std::move(options), found, world_.trace, disk_.log);
}

absl::Status ShardProcess::Start() {
  auto core = std::make_unique<ShardCore>(CoreOptions());
  if (logs_) RETURN_IF_ERROR(Restore(core));
  life_ = world_.oracle.life(shard_);
  runtime_ = std::make_unique<shard::ShardRuntime>(
      shard::ShardRuntimeParts{.core = std::move(core),
                               .durable = durable_.get(),
                               .images = &parts_,
                               .metrics = shard_metrics_,
                               .clock = world_.loop},
      shard::ShardRuntimeOptions{
          .queue = {.threads = false, .on_work = [this] { Poke(); }},
          .durability = world_.settings.mode,
          .knows_clients = logs_ || world_.settings.bug == Bug::kGreetsTooEarly,
          .core = CoreOptions,
          .on_broken = [this](const absl::Status&) { End("shard fails"); }});
  // A disk that fails already: the next process begins with what is there.
  if (!runtime_->Begin().ok()) End("shard fails");
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
  const absl::Status submitted = sequencer().Submit(std::move(request));
  if (!submitted.ok()) respond(Refused(submitted));
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

absl::StatusOr<std::vector<ClientStep>> ShardProcess::Freeze(ShardCore& core,
                                                             uint64_t checkpoint_id,
                                                             uint64_t generation,
                                                             absl::Duration limit) {
  if (world_.settings.bug == Bug::kCutWithoutHolding) {
    return shard::StepGate::Changed(core.contexts());
  }
  return participant().Freeze(core, checkpoint_id, generation, limit);
}

absl::StatusOr<std::vector<ClientStep>> ShardProcess::Admit(ShardCore& core, uint64_t checkpoint_id,
                                                            const std::vector<ClientStep>& up_to,
                                                            const std::vector<ClientId>& evict) {
  if (world_.settings.bug == Bug::kCutWithoutHolding) return std::vector<ClientStep>();
  for (const ClientId& client : evict) world_.oracle.Evicted(client);
  return participant().Admit(core, checkpoint_id, up_to, evict);
}

absl::StatusOr<shard::CutSize> ShardProcess::Cut(ShardCore& core, uint64_t checkpoint_id,
                                                 const shard::PartBase& base) {
  if (world_.settings.bug == Bug::kCutWithoutHolding) {
    RETURN_IF_ERROR(
        participant().Freeze(core, checkpoint_id, core.generation(), absl::Seconds(1)).status());
  }
  return participant().Cut(core, checkpoint_id, base);
}

absl::Status ShardProcess::Rollback(ShardCore& core, uint64_t checkpoint_id, uint32_t checksum) {
  RETURN_IF_ERROR(participant().Rollback(core, checkpoint_id, checksum).status());
  world_.trace.Note("went back", {shard_, static_cast<int64_t>(checkpoint_id)});
  if (logs_) world_.oracle.Forced(shard_, *disk_.images.images.rbegin()->second);
  world_.oracle.WentBack(shard_, *disk_.parts.Find(shard::CheckpointLabel(checkpoint_id)), core);
  life_ = world_.oracle.life(shard_);
  return absl::OkStatus();
}

void ShardProcess::Compare() {
  if (logs_) world_.oracle.CompareWithTwin(shard_, durable_->log().appended(), core());
}

// --- The sequencer's turns

void ShardProcess::Poke() {
  if (turning_) return;
  turning_ = true;
  Node::After(node_, kTurnTime, [this] { RunOnce(); });
}

void ShardProcess::RunOnce() {
  turning_ = false;
  if (sequencer().RunOnce()) Poke();
  const absl::Duration wake_at = sequencer().WakeAt();
  if (wake_at == wake_at_ || wake_at == absl::InfiniteDuration()) return;
  wake_at_ = wake_at;
  Node::After(node_, wake_at - world_.loop.Now(), [this] { RunOnce(); });
}

void ShardProcess::End(absl::string_view why) {
  world_.trace.Note(why, {shard_});
  // Within a moment; what it has answered by then counts.
  Node::After(node_, absl::Milliseconds(1), on_end_);
}

// --- The coordinator

void ShardProcess::Register() {
  CoordinatorHost::Register(world_, node_, shard_, instance_id_, logs_ && !core().models().empty(),
                            [this](const absl::StatusOr<RegistrationAnswer>& answer) {
                              if (answer.ok()) {
                                OnOwned(*answer);
                              } else if (absl::IsFailedPrecondition(answer.status())) {
                                OnFenced();
                              } else {
                                RegisterLater();
                              }
                            });
}

void ShardProcess::OnOwned(const RegistrationAnswer& answer) {
  const absl::Status queued = sequencer().SubmitTask([this, answer](ShardCore& core) {
    const SetOwnershipCommand own{.shard = ShardId(shard_), .generation = answer.generation};
    if (!runtime_->Own(core, own, answer.rollback_pending).ok()) return RegisterLater();
    owned_ = true;
    world_.trace.Note(
        "owned", {shard_, static_cast<int64_t>(answer.generation), admission().waiting() ? 1 : 0});
    HeartbeatLater();
  });
  if (!queued.ok()) RegisterLater();
}

void ShardProcess::RegisterLater() {
  Node::After(node_, absl::Milliseconds(50), [this] { Register(); });
}

void ShardProcess::HeartbeatLater() {
  Node::After(node_, admission().waiting() ? kHeartbeatOfWaiting : kHeartbeat,
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
                                 admission().OnHeartbeat(*rollback_pending);
                               HeartbeatLater();
                             });
}

void ShardProcess::OnFenced() {
  runtime_->Fence(absl::FailedPreconditionError("the coordinator says so"));
  End("fenced");
}

}  // namespace dslide::simulation

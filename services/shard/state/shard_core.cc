#include "services/shard/state/shard_core.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "services/shard/state/refusal.h"

namespace dslide::shard {
namespace {

absl::Status Precondition(absl::string_view reason, absl::string_view message) {
  return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason, message);
}

// Success, or wrong for ever: a repetition gets the same answer.
bool UsesUpSequence(const absl::Status& status) {
  return status.ok() || status.code() == absl::StatusCode::kInvalidArgument;
}

// What is wrong with what the request says, and not with when it comes.
bool IsBadContent(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return false;
  const std::string word = ReasonOf(status);
  return word != reason::kNoContext && word != reason::kStepClosed;
}

absl::Status NoContext(const StepCommand& command, absl::string_view forward,
                       const std::string& table) {
  return Refuse(reason::kNoContext,
                absl::StrCat("step ", command.step, " has no open ", forward, " of table \"", table,
                             "\": it was never sent, was used already, was closed by ",
                             "first_open_step, or the shard was restarted"));
}

}  // namespace

bool MayChangeState(const Command& command) {
  if (const auto* create = std::get_if<CreateModelCommand>(&command)) return !create->dry_run;
  return !std::holds_alternative<GatherCommand>(command) &&
         !std::holds_alternative<TopKCommand>(command) &&
         !std::holds_alternative<ReadCommand>(command) &&
         !std::holds_alternative<ReadRowsCommand>(command) &&
         !std::holds_alternative<DescribeModelCommand>(command);
}

ShardCore::ShardCore(ShardCoreOptions options)
    : options_(options), clients_(options.clients), contexts_(options.context_bytes) {}

Answer ShardCore::Apply(Command command) {
  ++commands_;
  if (MayChangeState(command)) ++changes_;
  Answer answer = std::visit([this](auto& concrete) { return Run(concrete); }, command);
  DropEvicted();
  return answer;
}

void ShardCore::SetLimits(const CoreLimits& limits) {
  static_cast<CoreLimits&>(options_) = limits;
  clients_.set_limits(limits.clients);
  contexts_.set_budget_bytes(limits.context_bytes);
}

void ShardCore::SettleTables() {
  for (const auto& [name, model] : models_) {
    for (ShardTable& table : model->tables()) {
      if (table.head != nullptr) table.head->SettleHashes();
    }
  }
}

bool ShardCore::AnyHead(absl::FunctionRef<bool(const HeadTable&)> holds) const {
  for (const auto& [name, model] : models_) {
    for (const ShardTable& table : std::as_const(*model).tables()) {
      if (table.head != nullptr && holds(*table.head)) return true;
    }
  }
  return false;
}

bool ShardCore::building() const {
  return AnyHead([](const HeadTable& head) { return head.building(); });
}

bool ShardCore::SettlingWaits(int64_t steps) const {
  return AnyHead([&](const HeadTable& head) { return head.SettlingWaits(steps); });
}

ShardCore::Counts ShardCore::counts() const {
  return {.shard = shard_,
          .generation = generation_,
          .topology_version = topology_version_,
          .changes = changes_,
          .mutations = mutations_};
}

void ShardCore::RestoreCounts(const Counts& counts) {
  shard_ = counts.shard;
  generation_ = counts.generation;
  topology_version_ = counts.topology_version;
  changes_ = counts.changes;
  mutations_ = counts.mutations;
}

Answer ShardCore::Ok(ReplyBody body, const ShardModel* model) const {
  auto reply = std::make_shared<Reply>();
  reply->body = std::move(body);
  return {.reply = std::move(reply),
          .generation = generation_,
          .activations = model == nullptr ? ActivationType::kF32 : model->spec().activations};
}

Answer ShardCore::Error(absl::Status status) const {
  auto reply = std::make_shared<Reply>();
  reply->status = std::move(status);
  return {.reply = std::move(reply), .generation = generation_};
}

void ShardCore::DropEvicted() {
  for (const ClientId& client : clients_.TakeEvicted()) contexts_.DropClient(client);
}

ShardModel* ShardCore::FindModel(const std::string& name) {
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : found->second.get();
}

absl::StatusOr<ShardModel*> ShardCore::LookUp(const std::string& name, uint64_t topology_version) {
  ShardModel* const model = FindModel(name);
  if (model == nullptr) {
    return StatusWithReason(
        absl::StatusCode::kNotFound, reason::kUnknownModel,
        absl::StrCat("this shard has no model \"", name, "\": create it first"));
  }
  if (topology_version != 0 && model->topology_version() != 0 &&
      topology_version != model->topology_version()) {
    return Precondition(
        reason::kStaleTopology,
        absl::StrCat("the request was sliced by slot map ", topology_version, ", model \"", name,
                     "\" uses ", model->topology_version(), ": refresh the cluster map"));
  }
  return model;
}

Answer ShardCore::Mutate(const Envelope& envelope, Work work) {
  if (envelope.generation != 0 && envelope.generation != generation_) {
    return Error(Precondition(
        reason::kStaleGeneration,
        absl::StrCat("the request is for generation ", envelope.generation, ", this shard is ",
                     generation_, ": refresh the cluster map and call Hello")));
  }
  absl::StatusOr<ShardModel*> model = LookUp(envelope.model, envelope.topology_version);
  if (!model.ok()) return Error(std::move(model).status());
  absl::StatusOr<std::shared_ptr<const Reply>> known = clients_.Admit(envelope, changes_);
  DropEvicted();
  if (!known.ok()) return Error(std::move(known).status());
  const ActivationType activations = (*model)->spec().activations;
  if (*known != nullptr) {
    return {.reply = *std::move(known),
            .generation = generation_,
            .activations = activations,
            .repeated = true};
  }
  auto reply = std::make_shared<Reply>();
  absl::StatusOr<ReplyBody> body = work(**model);
  if (body.ok()) {
    reply->body = *std::move(body);
    ++mutations_;
  } else {
    reply->status = std::move(body).status();
  }
  if (UsesUpSequence(reply->status)) clients_.Complete(envelope, reply);
  if (clients_.Count(envelope.client, IsBadContent(reply->status))) ++quarantined_;
  return {.reply = std::move(reply), .generation = generation_, .activations = activations};
}

Answer ShardCore::Run(RefusedCommand& command) {
  return Mutate(command.envelope,
                [&](ShardModel&) -> absl::StatusOr<ReplyBody> { return command.refusal; });
}

Answer ShardCore::Run(ScatterCommand& command) {
  return Mutate(command.envelope, [&](ShardModel& model) -> absl::StatusOr<ReplyBody> {
    return model.Scatter(command);
  });
}

Answer ShardCore::Run(StepCommand& command) {
  return Mutate(command.envelope, [&](ShardModel& model) -> absl::StatusOr<ReplyBody> {
    RETURN_IF_ERROR(
        contexts_.Advance(command.envelope.client, command.step, command.first_open_step));
    return RunOp(model, command);
  });
}

absl::StatusOr<ReplyBody> ShardCore::RunOp(ShardModel& model, StepCommand& command) {
  if (std::holds_alternative<EmbedForwardOp>(command.op)) return EmbedForward(model, command);
  if (std::holds_alternative<EmbedBackwardOp>(command.op)) return EmbedBackward(model, command);
  if (std::holds_alternative<HeadForwardOp>(command.op)) return HeadForward(model, command);
  if (std::holds_alternative<HeadBackwardOp>(command.op)) return HeadBackward(model, command);
  if (const auto* gather = std::get_if<DenseGatherOp>(&command.op)) {
    return model.DenseGather(*gather);
  }
  if (const auto* scatter = std::get_if<DenseScatterOp>(&command.op)) {
    absl::StatusOr<DenseScatterReply> reply = model.DenseScatter(*scatter);
    if (reply.ok()) contexts_.Changed(command.envelope.client, command.step);
    return reply;
  }
  if (const auto* append = std::get_if<AppendPointsOp>(&command.op)) {
    RETURN_IF_ERROR(CheckMemory(Components::BytesOf(*append)));
  } else if (const auto* load = std::get_if<LoadRowsOp>(&command.op)) {
    RETURN_IF_ERROR(CheckMemory(Components::BytesOf(*load)));
    return model.LoadRows(*load);
  } else if (std::holds_alternative<SolveRowsOp>(command.op)) {
    RETURN_IF_ERROR(CheckMemory(0));
  }
  return model.RunComponentOp(command.op);
}

absl::Status ShardCore::CheckMemory(int64_t more) const {
  const int64_t used = memory_bytes();
  // What is kept to be faster gives way, and decides nothing.
  if (used + more + kept_bytes() > options_.memory_bytes) ForgetKept();
  if (used + more <= options_.memory_bytes) return absl::OkStatus();
  return OverloadStatus(reason::kOutOfMemory,
                        absl::StrCat("the shard's models have ", used, " bytes, and ", more,
                                     " more are beyond --memory-budget, ", options_.memory_bytes,
                                     ": add shards or memory"),
                        absl::Seconds(1));
}

absl::Status ShardCore::MakeContextRoom(const ClientId& client, int64_t bytes) {
  for (;;) {
    absl::Status room = contexts_.CheckRoom(bytes);
    if (!absl::IsResourceExhausted(room) || !clients_.EvictIdlest(client, changes_)) return room;
    DropEvicted();
  }
}

absl::StatusOr<ReplyBody> ShardCore::EmbedForward(ShardModel& model, StepCommand& command) {
  auto& op = std::get<EmbedForwardOp>(command.op);
  const std::string table = op.table;
  const ClientId& client = command.envelope.client;
  const auto bytes = static_cast<int64_t>(
      sizeof(FeatureBatch) + 4 * (op.offsets.size() + op.rows.size() + op.values.size()));
  RETURN_IF_ERROR(MakeContextRoom(client, bytes));
  FeatureBatch features;
  ASSIGN_OR_RETURN(EmbedForwardReply reply, model.EmbedForward(std::move(op), features));
  contexts_.Put(client, command.step, model.spec().name, table, std::move(features));
  return reply;
}

absl::StatusOr<ReplyBody> ShardCore::EmbedBackward(ShardModel& model, StepCommand& command) {
  const auto& op = std::get<EmbedBackwardOp>(command.op);
  const ClientId& client = command.envelope.client;
  const ContextData* const data = contexts_.Find(client, command.step, model.spec().name, op.table);
  const auto* const features = data == nullptr ? nullptr : std::get_if<FeatureBatch>(data);
  if (features == nullptr) return NoContext(command, "EmbedForward", op.table);
  ASSIGN_OR_RETURN(const EmbedBackwardReply reply, model.EmbedBackward(op, *features));
  contexts_.Changed(client, command.step);
  contexts_.Erase(client, command.step, model.spec().name, op.table);
  return reply;
}

absl::StatusOr<ReplyBody> ShardCore::HeadForward(ShardModel& model, StepCommand& command) {
  auto& op = std::get<HeadForwardOp>(command.op);
  const std::string table = op.table;
  const ClientId& client = command.envelope.client;
  // What is sure to be kept; the rest is known only when the rows are selected.
  RETURN_IF_ERROR(MakeContextRoom(client, static_cast<int64_t>(4 * op.hidden.size())));
  HeadContext context = contexts_.TakeSpare();
  absl::StatusOr<HeadForwardReply> reply = model.HeadForward(std::move(op), command.step, context);
  absl::Status status = reply.status();
  // Forward has changed no row, so it can still be refused.
  if (status.ok()) {
    status =
        MakeContextRoom(client, static_cast<int64_t>(sizeof(HeadContext)) + context.memory_bytes());
  }
  if (!status.ok()) {
    contexts_.GiveSpare(std::move(context));
    return status;
  }
  contexts_.Put(client, command.step, model.spec().name, table, std::move(context));
  return *std::move(reply);
}

absl::StatusOr<ReplyBody> ShardCore::HeadBackward(ShardModel& model, StepCommand& command) {
  const auto& op = std::get<HeadBackwardOp>(command.op);
  const ClientId& client = command.envelope.client;
  const ContextData* const data = contexts_.Find(client, command.step, model.spec().name, op.table);
  const auto* const context = data == nullptr ? nullptr : std::get_if<HeadContext>(data);
  if (context == nullptr) return NoContext(command, "HeadForward", op.table);
  ASSIGN_OR_RETURN(HeadBackwardReply reply, model.HeadBackward(op, *context));
  contexts_.Changed(client, command.step);
  contexts_.Erase(client, command.step, model.spec().name, op.table);
  return reply;
}

Answer ShardCore::Run(GatherCommand& command) {
  absl::StatusOr<ShardModel*> model = LookUp(command.model, command.topology_version);
  if (!model.ok()) return Error(std::move(model).status());
  absl::StatusOr<GatherReply> reply = (*model)->Gather(command);
  return reply.ok() ? Ok(*std::move(reply), *model) : Error(std::move(reply).status());
}

Answer ShardCore::Run(ReadCommand& command) {
  absl::StatusOr<ShardModel*> model = LookUp(command.model, command.topology_version);
  if (!model.ok()) return Error(std::move(model).status());
  absl::StatusOr<ReplyBody> reply = [&]() -> absl::StatusOr<ReplyBody> {
    if (auto* const embed = std::get_if<EmbedForwardOp>(&command.op)) {
      FeatureBatch inputs;  // for a backward pass, which does not come
      return (*model)->EmbedForward(std::move(*embed), inputs);
    }
    if (const auto* gather = std::get_if<DenseGatherOp>(&command.op)) {
      return (*model)->DenseGather(*gather);
    }
    return (*model)->RunComponentOp(command.op, room());
  }();
  return reply.ok() ? Ok(*std::move(reply), *model) : Error(std::move(reply).status());
}

Answer ShardCore::Run(TopKCommand& command) {
  absl::StatusOr<ShardModel*> model = LookUp(command.model, /*topology_version=*/0);
  if (!model.ok()) return Error(std::move(model).status());
  absl::StatusOr<TopKReply> reply = (*model)->TopK(std::move(command), room());
  return reply.ok() ? Ok(*std::move(reply), *model) : Error(std::move(reply).status());
}

void ShardCore::InstallModel(std::unique_ptr<ShardModel> model) {
  const std::string name = model->spec().name;
  contexts_.DropModel(name);
  topology_version_ = std::max(topology_version_, model->topology_version());
  std::shared_ptr<ShardModel>& place = models_[name];
  if (place != nullptr) dropped_ += place->counters();
  place = std::move(model);
}

void ShardCore::DropAllModels() {
  for (const auto& [name, model] : models_) {
    contexts_.DropModel(name);
    dropped_ += model->counters();
  }
  models_.clear();
}

void ShardCore::ReplaceState(ShardCore other) {
  DropAllModels();
  models_ = std::move(other.models_);
  std::vector<ClientId> known;
  for (const auto& [id, client] : clients_.clients()) known.push_back(id);
  for (const ClientId& id : clients_.closed()) known.push_back(id);
  clients_ = std::move(other.clients_);
  contexts_ = std::move(other.contexts_);
  changes_ = other.changes_;
  mutations_ = other.mutations_;
  topology_version_ = std::max(topology_version_, other.topology_version_);
  SetLimits(CoreLimits(options_));
  for (const auto& [id, client] : clients_.clients()) known.push_back(id);
  for (const ClientId& id : known) {
    clients_.Close(id);
    contexts_.DropClient(id);
  }
}

Answer ShardCore::Run(DescribeModelCommand& command) {
  const absl::StatusOr<ShardModel*> model = LookUp(command.model, /*topology_version=*/0);
  if (!model.ok()) return Error(model.status());
  return Ok((*model)->Describe(command.with_digests), *model);
}

Answer ShardCore::Run(ReadRowsCommand& command) {
  const absl::StatusOr<ShardModel*> model = LookUp(command.model, /*topology_version=*/0);
  if (!model.ok()) return Error(model.status());
  absl::StatusOr<ReadRowsReply> reply = (*model)->ReadRows(command);
  return reply.ok() ? Ok(*std::move(reply), *model) : Error(std::move(reply).status());
}

Answer ShardCore::Run(HelloCommand& command) {
  const absl::StatusOr<uint64_t> next =
      clients_.Open(command.client, command.job, command.acknowledged_sequence, changes_);
  if (!next.ok()) return Error(next.status());
  return Ok(HelloReply{
      .generation = generation_, .topology_version = topology_version_, .next_sequence = *next});
}

Answer ShardCore::Run(CloseClientCommand& command) {
  clients_.Close(command.client);
  contexts_.DropClient(command.client);
  return Ok(CloseClientReply{});
}

Answer ShardCore::Run(SetOwnershipCommand& command) {
  shard_ = command.shard;
  generation_ = command.generation;
  topology_version_ = std::max(topology_version_, command.topology_version);
  return Ok(SetOwnershipReply{});
}

uint64_t ShardCore::Digest() const {
  uint64_t digest = 0;
  for (const auto& [name, model] : models_) {
    for (const TableStateReply& table : model->Describe(/*with_digests=*/true).tables) {
      uint64_t key = 0;
      for (const char c : absl::StrCat(name, "/", table.name)) key = DeriveKey(key, c);
      digest += Mix64(key ^ table.digest) + Mix64(key + static_cast<uint64_t>(table.applied_steps));
    }
  }
  return digest;
}

ModelCounters ShardCore::Counters() const {
  ModelCounters counters = dropped_;
  for (const auto& [name, model] : models_) counters += model->counters();
  return counters;
}

int64_t ShardCore::memory_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, model] : models_) bytes += model->memory_bytes();
  return bytes;
}

int64_t ShardCore::kept_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, model] : models_) bytes += model->kept_bytes();
  return bytes;
}

int64_t ShardCore::room() const { return options_.memory_bytes - memory_bytes() - kept_bytes(); }

void ShardCore::ForgetKept() const {
  for (const auto& [name, model] : models_) model->ForgetKept();
}

}  // namespace dslide::shard

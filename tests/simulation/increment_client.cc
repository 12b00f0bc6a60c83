#include "tests/simulation/increment_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/row_codec.h"
#include "tests/simulation/nodes/shard_host.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kIncrementTimeout = absl::Milliseconds(120);
constexpr absl::Duration kPause = absl::Milliseconds(10);
constexpr absl::Duration kThinking = absl::Milliseconds(150);
constexpr size_t kAtOnce = 3;
constexpr char kJob[] = "increments";

// An answer that says no more than "later".
bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsAborted(status);
}

}  // namespace

IncrementClient::IncrementClient(World& world, Place place, int updates)
    : world_(world), node_(std::make_shared<Node>(world.loop, place)) {
  for (int shard = 0; shard < world.settings.shards; ++shard) {
    Session& session = sessions_.emplace_back();
    session.shard = shard;
    session.id = world.NewClientId();
    session.left = updates;
  }
}

void IncrementClient::Start() {
  for (Session& session : sessions_) Greet(session, kPause);
}

void IncrementClient::Kill() {
  node_->Kill();
  for (const Session& session : sessions_) world_.oracle.Died(session.id);
}

void IncrementClient::Settle() {
  for (Session& session : sessions_) {
    session.must_settle = true;
    Greet(session, absl::ZeroDuration());
  }
}

bool IncrementClient::done() const {
  return std::all_of(sessions_.begin(), sessions_.end(), [](const Session& session) {
    return session.left == 0 && session.open.empty() && session.greeted && !session.must_settle;
  });
}

void IncrementClient::Greet(Session& session, absl::Duration pause) {
  session.greeted = false;
  if (std::exchange(session.greeting, true)) return;
  Node::After(node_, pause, [this, &session] {
    ShardHost& host = *world_.shards[static_cast<size_t>(session.shard)];
    const auto again = [this, &session] {
      session.greeting = false;
      Greet(session, kPause);
    };
    if (!host.up()) return again();
    const uint64_t acked =
        session.open.empty() ? session.next - 1 : session.open.begin()->first - 1;
    const HelloCommand hello{.job = kJob, .client = session.id, .acknowledged_sequence = acked};
    ShardProcess* const process = host.process();
    world_.network.Call<ShardAnswer>(
        node_, process->node(), kIncrementTimeout,
        [process, hello](Respond respond) { process->Hello(hello, std::move(respond)); },
        [this, &session, again](const std::optional<ShardAnswer>& answer) {
          if (!answer.has_value() || IsTransient(answer->reply->status)) return again();
          session.greeting = false;
          OnGreeted(session, *answer);
        });
  });
}

void IncrementClient::OnGreeted(Session& session, const ShardAnswer& answer) {
  const absl::Status& status = answer.reply->status;
  if (!status.ok()) {
    if (ReasonOf(status) == reason::kClosedClient) return BeginAnew(session, std::nullopt);
    return Greet(session, kPause);
  }
  const auto& hello = std::get<HelloReply>(answer.reply->body);
  if (hello.next_sequence <= session.acked || hello.next_sequence > session.next) {
    return BeginAnew(session, answer.life);
  }
  session.generation = hello.generation;
  session.greeted = true;
  ++session.greetings;
  session.must_settle = false;
  SendAll(session);
  Go(session);
}

void IncrementClient::BeginAnew(Session& session, Telling what) {
  world_.trace.Note("begins anew", {node_->place(), session.shard, what.has_value() ? 0 : 1});
  world_.oracle.Told(session.id, session.shard, what);
  session.id = world_.NewClientId();
  session.next = 1;
  session.acked = 0;
  session.open.clear();
  session.greeting = false;
  Greet(session, kPause);
}

void IncrementClient::Go(Session& session) {
  if (!session.greeted) return;
  while (session.left > 0 && session.open.size() < kAtOnce) {
    const std::optional<Cell> cell = world_.layout.NextCell(session.shard);
    if (!cell.has_value()) {
      session.left = 0;
      break;
    }
    --session.left;
    const uint64_t sequence = session.next++;
    session.open[sequence].update = &world_.oracle.Send(*cell, session.id, sequence, 1);
    if (session.read.size() < 8) session.read.push_back(*cell);
    Send(session, sequence);
  }
}

void IncrementClient::SendAll(Session& session) {
  for (const auto& [sequence, pending] : session.open) Send(session, sequence);
}

std::string IncrementClient::Encode(const Session& session, const Update& update) const {
  ScatterCommand command;
  command.envelope = {.job = kJob,
                      .client = session.id,
                      .sequence = update.sequence,
                      .first_incomplete = session.open.begin()->first,
                      .generation = session.generation,
                      .topology_version = 0,
                      .model = kModel};
  command.table = kCells;
  command.mode = ScatterMode::kAdd;
  command.rows.dim = kDim;
  command.rows.rows = {update.where.row};
  command.rows.values.assign(kDim, 0);
  command.rows.values[static_cast<size_t>(update.where.column)] = 1;
  return wire::EncodeScatter(command, ActivationType::kF32).front().SerializeAsString();
}

void IncrementClient::Send(Session& session, uint64_t sequence) {
  ShardHost& host = *world_.shards[static_cast<size_t>(session.shard)];
  if (!host.up()) return Greet(session, kPause);
  const std::string request = Encode(session, *session.open[sequence].update);
  ShardProcess* const process = host.process();
  int calls = 1;
  if (world_.faults_on && world_.Chance(0.05)) {
    world_.trace.Note(Fault::kDuplicateRequest, {node_->place(), session.shard});
    calls = 2;
  }
  for (int call = 0; call < calls; ++call) {
    world_.network.Call<ShardAnswer>(
        node_, process->node(), kIncrementTimeout,
        [process, request](Respond respond) { process->Scatter(request, std::move(respond)); },
        [this, &session, sequence, as = session.id,
         greeting = session.greetings](const std::optional<ShardAnswer>& answer) {
          OnAnswer(session, sequence, as, greeting, answer);
        });
  }
}

void IncrementClient::OnAnswer(Session& session, uint64_t sequence, const ClientId& as,
                               int64_t greeting, const std::optional<ShardAnswer>& answer) {
  if (answer.has_value() && answer->reply->status.ok()) {
    world_.oracle.Answered(as, sequence, session.shard, answer->life, *answer->reply);
  }
  // An answer to what was sent before the last greeting may be of an owner that has gone since, and
  // with it what it had applied: the present one is asked again.
  if (as != session.id || !session.greeted || greeting != session.greetings) return;
  const auto open = session.open.find(sequence);
  if (open == session.open.end()) return;
  if (!answer.has_value()) return Greet(session, kPause);
  const absl::Status& status = answer->reply->status;
  if (!status.ok()) return OnRefused(session, status);
  Update& update = *open->second.update;
  world_.oracle.Acked(update, answer->life);
  session.acked = std::max(session.acked, sequence);
  world_.trace.Note("acked", {node_->place(), session.shard, static_cast<int64_t>(sequence)});
  session.open.erase(open);
  if (world_.Chance(0.1)) ReadSome(session);
  Node::After(node_, world_.Between(absl::Milliseconds(1), kThinking),
              [this, &session] { Go(session); });
}

void IncrementClient::OnRefused(Session& session, const absl::Status& refusal) {
  const std::string word = ReasonOf(refusal);
  if (word == reason::kClosedClient) return BeginAnew(session, std::nullopt);
  // What is wrong in itself this client never sends.
  if (absl::IsInvalidArgument(refusal)) {
    world_.trace.Violation(absl::StrCat("a good update was refused: ", refusal.ToString()));
  }
  // Also after a gap: an earlier one is on its way, or was refused for the moment.
  Greet(session, kPause);
}

void IncrementClient::ReadSome(Session& session) {
  ShardHost& host = *world_.shards[static_cast<size_t>(session.shard)];
  if (!host.up() || session.read.empty()) return;
  const Cell cell = session.read[world_.rng.NextBelow(session.read.size())];
  GatherCommand gather;
  gather.model = kModel;
  gather.table = kCells;
  gather.rows = {cell.row};
  ShardProcess* const process = host.process();
  world_.network.Call<ShardAnswer>(
      node_, process->node(), kIncrementTimeout,
      [process, gather](Respond respond) { process->Gather(gather, std::move(respond)); },
      [this, cell](const std::optional<ShardAnswer>& answer) {
        if (!answer.has_value() || !answer->reply->status.ok()) return;
        const auto& rows = std::get<GatherReply>(answer->reply->body).rows;
        for (int64_t column = 0; column < kDim; ++column) {
          Cell read = cell;
          read.column = column;
          world_.oracle.Read(read, rows.values[static_cast<size_t>(column)], answer->life);
        }
      });
}

}  // namespace dslide::simulation

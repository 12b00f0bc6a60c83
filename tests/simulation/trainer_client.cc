#include "tests/simulation/trainer_client.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tests/simulation/nodes/coordinator_host.h"

namespace dslide::simulation {
namespace {

constexpr int kPhases = 4;
constexpr absl::Duration kTrainerPause = absl::Milliseconds(20);
constexpr absl::Duration kTrainerClientThinking = absl::Milliseconds(12);
constexpr absl::Duration kRenewal = absl::Milliseconds(100);

}  // namespace

TrainerClient::TrainerClient(World& world, Place place, int64_t in_flight)
    : world_(world), node_(std::make_shared<Node>(world.loop, place)), in_flight_(in_flight) {}

void TrainerClient::Start() {
  Begin();
  Renew();
}

void TrainerClient::Kill() {
  node_->Kill();
  world_.oracle.Died(id_);
}

void TrainerClient::Settle() {
  for (const auto& session : sessions_) session->Settle();
}

bool TrainerClient::done() const {
  return over_ && open_.empty() &&
         std::all_of(sessions_.begin(), sessions_.end(),
                     [](const auto& session) { return session->settled(); });
}

void TrainerClient::Begin() {
  CoordinatorHost::Map(world_, node_, [this, life = lives_](const absl::Status& map) {
    if (life != lives_) return;
    if (!map.ok()) {
      Node::After(node_, kTrainerPause, [this, life] {
        if (life == lives_) Begin();
      });
      return;
    }
    rows_.clear();
    for (int shard = 0; shard < world_.settings.shards; ++shard) {
      const std::optional<Cell> row = world_.layout.NextRow(shard);
      if (!row.has_value()) {
        over_ = true;
        return;
      }
      rows_.push_back(*row);
    }
    id_ = world_.NewClientId();
    world_.oracle.Counts(id_, rows_);
    for (int shard = 0; shard < world_.settings.shards; ++shard) {
      sessions_.push_back(std::make_unique<StepSession>(world_, node_, shard, id_,
                                                        [this, shard, life](Telling what) {
                                                          if (life == lives_)
                                                            BeginAnew(what, shard);
                                                        }));
      sessions_.back()->Open();
    }
    AskForWork(/*wants_work=*/true);
  });
}

void TrainerClient::BeginAnew(Telling what, int shard) {
  world_.trace.Note("trainer begins anew", {node_->place(), shard, what.has_value() ? 0 : 1});
  world_.oracle.Told(id_, shard, what);
  for (int other = 0; other < world_.settings.shards; ++other) {
    if (other != shard) world_.oracle.GivesUp(id_, other);
  }
  ++lives_;
  for (auto& session : sessions_) past_.push_back(std::move(session));
  sessions_.clear();
  open_.clear();
  finished_.clear();
  chunk_ = {};
  chunk_left_ = 0;
  next_step_ = 1;
  asking_ = false;
  // What is going on now may be one of its sessions.
  Node::After(node_, kTrainerPause, [this, life = lives_] {
    if (life != lives_) return;
    past_.clear();
    if (!over_) Begin();
  });
}

void TrainerClient::AskForWork(bool wants_work) {
  if (over_ || std::exchange(asking_, true)) return;
  WorkRequest request;
  request.client = id_;
  request.finished = finished_;
  if (chunk_.lease != 0) request.held = {chunk_.lease};
  request.want_work = wants_work;
  CoordinatorHost::Acquire(world_, node_, request,
                           [this, life = lives_, wants_work,
                            reported = finished_.size()](const absl::StatusOr<Work>& work) {
                             if (life != lives_) return;
                             asking_ = false;
                             if (!work.ok() && !absl::IsInvalidArgument(work.status())) {
                               Node::After(node_, kTrainerPause, [this, life, wants_work] {
                                 if (life == lives_) AskForWork(wants_work);
                               });
                               return;
                             }
                             finished_.erase(
                                 finished_.begin(),
                                 finished_.begin() + static_cast<std::ptrdiff_t>(reported));
                             // Another coordinator, which does not know the leases of its
                             // predecessor.
                             if (!work.ok()) return AskForWork(wants_work);
                             OnWork(*work);
                           });
}

void TrainerClient::OnWork(const Work& work) {
  if (const auto* chunk = std::get_if<ChunkWork>(&work)) {
    // The answer to a renewal may be a lease that was lost on its way here.
    if (chunk_.lease != 0) return;
    chunk_ = *chunk;
    chunk_left_ = chunk->count;
    return Go();
  }
  if (std::holds_alternative<NoMoreWork>(work)) {
    over_ = true;
    return;
  }
  if (chunk_.lease != 0 || chunk_left_ > 0) return;
  Node::After(node_, kTrainerPause, [this, life = lives_] {
    if (life == lives_ && chunk_.lease == 0) AskForWork(/*wants_work=*/true);
  });
}

void TrainerClient::Renew() {
  Node::After(node_, kRenewal, [this] {
    if (chunk_.lease != 0) AskForWork(/*wants_work=*/false);
    Renew();
  });
}

void TrainerClient::Go() {
  while (chunk_left_ > 0 && static_cast<int64_t>(open_.size()) < in_flight_) {
    --chunk_left_;
    open_[next_step_++];
  }
  SendReady();
}

void TrainerClient::SendReady() {
  int most = kPhases;  // that the step before allows
  for (auto& [number, step] : open_) {
    if (step.ready && step.phase <= most) {
      step.ready = false;
      SendPhase(number);
    }
    most = step.ready || step.waiting == 0 ? step.phase - 1 : step.phase;
  }
}

StepOp TrainerClient::OpOf(int phase, int shard) const {
  switch (phase) {
    case 0:
      return EmbedForwardOp{.table = kCells,
                            .offsets = {0, 1},
                            .rows = {rows_[static_cast<size_t>(shard)].row},
                            .values = {1}};
    case 1:
      return HeadForwardOp{.table = kHead,
                           .dim = kDim,
                           .hidden = {0.5f, -0.25f, 1.0f, 0.125f},
                           .fingerprints = {5, 2},
                           .label_offsets = {0, 1},
                           .labels = {world_.layout.LabelOn(shard)},
                           .label_targets = {1},
                           .recall_samples = {}};
    case 2:
      return HeadBackwardOp{.table = kHead, .log_partitions = {3}, .scale = 1};
    default:
      return EmbedBackwardOp{
          .table = kCells, .dim = kDim, .gradient = std::vector<float>(kDim, -1.0f)};
  }
}

void TrainerClient::SendPhase(int64_t number) {
  const int phase = open_[number].phase;
  const auto shards = static_cast<int>(sessions_.size());
  open_[number].waiting = shards;
  for (int shard = 0; shard < shards; ++shard) {
    StepSession& session = *sessions_[static_cast<size_t>(shard)];
    Update* update = nullptr;
    if (phase == kPhases - 1) {
      update = &world_.oracle.Send(rows_[static_cast<size_t>(shard)], id_, session.next(),
                                   static_cast<float>(number));
    }
    StepCommand command;
    command.step = number;
    command.first_open_step = open_.begin()->first;
    command.op = OpOf(phase, shard);
    session.Send(std::move(command), update, [this, life = lives_, number](const Reply&) {
      if (life == lives_) OnAnswer(number);
    });
  }
}

void TrainerClient::OnAnswer(int64_t number) {
  Step& step = open_[number];
  if (--step.waiting > 0) return;
  if (++step.phase < kPhases) {
    // What a trainer computes between the operations of a step.
    return Node::After(node_, world_.Between(absl::ZeroDuration(), kTrainerClientThinking),
                       [this, life = lives_, number] {
                         if (life != lives_) return;
                         open_[number].ready = true;
                         SendReady();
                       });
  }
  open_.erase(number);
  world_.trace.Note("step", {node_->place(), number});
  Go();
  if (!open_.empty() || chunk_left_ > 0 || chunk_.lease == 0) return;
  world_.oracle.Trained(chunk_.epoch, chunk_.first / 2);
  finished_.push_back({.lease = chunk_.lease, .samples = chunk_.count});
  chunk_ = {};
  AskForWork(/*wants_work=*/true);
}

}  // namespace dslide::simulation

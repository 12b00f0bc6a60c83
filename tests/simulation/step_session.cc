#include "tests/simulation/step_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/wire/steps/step_codec.h"
#include "tests/simulation/nodes/shard_host.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kStepSessionTimeout = absl::Milliseconds(120);
constexpr absl::Duration kSilence = absl::Milliseconds(300);
constexpr absl::Duration kStepSessionPause = absl::Milliseconds(10);
constexpr char kStepSessionJob[] = "work";

bool IsTransientReply(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsAborted(status);
}

}  // namespace

StepSession::StepSession(World& world, NodePtr node, int shard, const ClientId& id, Gone gone)
    : world_(world), node_(std::move(node)), shard_(shard), id_(id), gone_(std::move(gone)) {}

StepSession::~StepSession() { *here_ = false; }

std::function<void()> StepSession::Own(std::function<void()> work) {
  return [here = here_, work = std::move(work)] {
    if (*here) work();
  };
}

void StepSession::Open() { Greet(kStepSessionPause); }

void StepSession::Settle() {
  must_settle_ = true;
  Break();
}

void StepSession::Greet(absl::Duration pause) {
  if (std::exchange(greeting_, true)) return;
  Node::After(
      node_, pause, Own([this] {
        ShardHost& host = *world_.shards[static_cast<size_t>(shard_)];
        const auto again = [this] {
          greeting_ = false;
          Greet(kStepSessionPause);
        };
        if (!host.up()) return again();
        const HelloCommand hello{.job = kStepSessionJob,
                                 .client = id_,
                                 .acknowledged_sequence = next_ - 1 - unanswered_.size()};
        peer_ = host.process();
        world_.network.Call<ShardAnswer>(
            node_, peer_->node(), kStepSessionTimeout,
            [peer = peer_, hello](Respond respond) { peer->Hello(hello, std::move(respond)); },
            [this, here = here_, again](const std::optional<ShardAnswer>& answer) {
              if (!*here) return;
              if (!answer.has_value() || IsTransientReply(answer->reply->status)) return again();
              greeting_ = false;
              OnGreeted(*answer);
            });
      }));
}

void StepSession::OnGreeted(const ShardAnswer& answer) {
  const absl::Status& status = answer.reply->status;
  if (!status.ok()) {
    if (ReasonOf(status) == reason::kClosedClient) return gone_(std::nullopt);
    return Greet(kStepSessionPause);
  }
  const auto& hello = std::get<HelloReply>(answer.reply->body);
  const uint64_t first = next_ - unanswered_.size();
  if (hello.next_sequence < first || hello.next_sequence > next_) return gone_(answer.life);
  generation_ = hello.generation;
  must_settle_ = false;
  StartStream();
}

void StepSession::StartStream() {
  connected_ = true;
  ++stream_;
  up_ = std::make_shared<Lane>();
  down_ = std::make_shared<Lane>();
  written_ = held_ = 0;
  Write();
  Watch(stream_, answers_);
}

void StepSession::Watch(int64_t stream, int64_t answers) {
  Node::After(node_, kSilence, Own([this, stream, answers] {
                if (stream != stream_ || !connected_) return;
                if (answers == answers_ && !unanswered_.empty()) return Break();
                Watch(stream_, answers_);
              }));
}

void StepSession::Break() {
  connected_ = false;
  if (up_ != nullptr) up_->broken = down_->broken = true;
  Greet(kStepSessionPause);
}

void StepSession::Send(StepCommand command, Update* update, Done done) {
  command.envelope = {.job = kStepSessionJob,
                      .client = id_,
                      .sequence = next_++,
                      .first_incomplete = 0,
                      .generation = 0,
                      .topology_version = 0,
                      .model = kModel};
  unanswered_.push_back({std::move(command), update, std::move(done), false});
  Write();
}

void StepSession::Write() {
  if (!connected_ || held_ > 0) return;
  while (written_ < unanswered_.size()) WriteOne(unanswered_[written_++]);
}

void StepSession::WriteOne(const Unanswered& entry) {
  StepCommand command = entry.command;
  command.envelope.first_incomplete = unanswered_.front().command.envelope.sequence;
  command.envelope.generation = generation_;
  v1::StepRequest request;
  wire::EncodeStepRequest(command, {.packed = true}, &request);
  const uint64_t sequence = command.envelope.sequence;
  // The answer finds its way as long as the stream is the same one.
  const auto answered = [this, here = here_, stream = stream_,
                         sequence](const ShardAnswer& answer) {
    if (*here) OnAnswer(stream, sequence, answer);
  };
  world_.network.Send(
      node_, peer_->node(), up_.get(), /*is_reply=*/false,
      [&world = world_, peer = peer_, node = node_, up = up_, down = down_,
       bytes = request.SerializeAsString(), answered] {
        peer->Step(bytes, [&world, peer, node, up, down, answered](const ShardAnswer& answer) {
          world.network.Send(peer->node(), node, down.get(), /*is_reply=*/true,
                             [answer, answered, down] { answered(answer); });
        });
      });
}

void StepSession::OnAnswer(int64_t stream, uint64_t sequence, const ShardAnswer& answer) {
  if (answer.reply->status.ok()) {
    world_.oracle.Answered(id_, sequence, shard_, answer.life, *answer.reply);
  }
  if (stream != stream_ || !connected_) return;
  ++answers_;
  if (held_ >= unanswered_.size() || sequence != unanswered_[held_].command.envelope.sequence) {
    return world_.trace.Violation(
        absl::StrCat("shard ", shard_, " answers out of order: sequence ", sequence, " of client ",
                     shard::ShortName(id_), " with ", answer.reply->status.ToString(), ", ", held_,
                     " of ", unanswered_.size(), " are held, the first is ",
                     unanswered_.empty() ? 0 : unanswered_.front().command.envelope.sequence));
  }
  const absl::Status& status = answer.reply->status;
  if (Hold(status)) {
    if (held_ == written_) Node::After(node_, kStepSessionPause, Own([this] { Resume(); }));
    return;
  }
  const std::string word = ReasonOf(status);
  if (word == reason::kClosedClient) {
    connected_ = false;
    return gone_(std::nullopt);
  }
  if (absl::IsFailedPrecondition(status) || absl::IsNotFound(status)) return Break();
  Unanswered entry = std::move(unanswered_.front());
  unanswered_.pop_front();
  if (written_ > 0) --written_;
  if (status.ok() && entry.update != nullptr) world_.oracle.Acked(*entry.update, answer.life);
  if (!status.ok()) {
    world_.trace.Violation(absl::StrCat("a good operation was refused: ", status.ToString()));
  }
  entry.done(*answer.reply);
}

bool StepSession::Hold(const absl::Status& refusal) {
  const bool gap = ReasonOf(refusal) == reason::kSequenceGap;
  if (held_ == 0) {
    Unanswered& entry = unanswered_.front();
    if (!IsTransientReply(refusal) && !(gap && !entry.held_before)) return false;
    entry.held_before = true;
  }
  ++held_;
  return true;
}

void StepSession::Resume() {
  if (!connected_ || held_ == 0 || held_ != written_) return;
  held_ = written_ = 0;
  Write();
}

}  // namespace dslide::simulation

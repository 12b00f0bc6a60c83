#include "tests/simulation/nodes/shard_host.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kRestart = absl::Milliseconds(150);

}  // namespace

void ShardHost::Start() {
  if (up()) return;
  starting_ = false;
  if (process_ != nullptr) past_.push_back(std::move(process_));
  auto node = std::make_shared<Node>(world_.loop, shard_);  // shared with messages to it
  world_.trace.Note("shard starts", {shard_});
  process_ = std::make_unique<ShardProcess>(world_, shard_, node, disk_, power_, [this, node] {
    // A failed disk keeps what was synced, no more.
    Crash(node, /*power=*/true, kRestart);
  });
  const absl::Status started = process_->Start();
  if (started.ok()) return;
  node->Kill();
  world_.trace.Violation(absl::StrCat("shard ", shard_, " does not start: ", started.ToString()));
}

void ShardHost::Crash(bool power, absl::Duration pause) {
  if (process_ != nullptr) Crash(process_->node(), power, pause);
}

void ShardHost::Crash(const NodePtr& node, bool power, absl::Duration pause) {
  if (!node->alive()) return;
  node->Kill();
  // One that was replaced has taken nothing with it.
  if (node != process_->node()) return;
  power_ = power;
  if (world_.settings.mode == shard::Durability::kCheckpoint) {
    world_.oracle.CameBackEmpty(shard_);
  } else {
    CrashLog(shard_, power, world_.rng, world_.trace, disk_.log);
  }
  disk_.parts.full = false;
  if (std::exchange(starting_, true)) return;
  world_.loop.After(pause, [this] { Start(); });
}

void ShardHost::Replace() {
  if (!up() || starting_) return;
  world_.oracle.CameBackEmpty(shard_);
  past_.push_back(std::move(process_));
  Start();
}

}  // namespace dslide::simulation

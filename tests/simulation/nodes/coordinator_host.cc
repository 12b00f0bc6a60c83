#include "tests/simulation/nodes/coordinator_host.h"

#include <utility>

#include "tests/simulation/nodes/coordinator_process.h"

namespace dslide::simulation {
namespace {

constexpr absl::Duration kTimeout = absl::Milliseconds(200);

}  // namespace

CoordinatorHost::CoordinatorHost(World& world) : world_(world) {}
CoordinatorHost::~CoordinatorHost() = default;

bool CoordinatorHost::up() const { return process_ != nullptr && process_->node()->alive(); }

void CoordinatorHost::Start() {
  starting_ = false;
  if (process_ != nullptr) past_.push_back(std::move(process_));
  ++disk_.lives;
  world_.trace.Note("coordinator starts");
  auto node = std::make_shared<Node>(world_.loop, world_.coordinator_place());
  process_ = std::make_unique<CoordinatorProcess>(world_, std::move(node), disk_);
  process_->Start();
}

void CoordinatorHost::Kill(absl::Duration pause) {
  if (!up() || std::exchange(starting_, true)) return;
  process_->node()->Kill();
  world_.loop.After(pause, [this] { Start(); });
}

template <typename T>
void CoordinatorHost::Ask(World& world, const NodePtr& from,
                          std::function<absl::StatusOr<T>(CoordinatorProcess&)> ask,
                          std::function<void(absl::StatusOr<T>)> done) {
  CoordinatorHost& host = *world.coordinator;
  if (!host.up()) {
    Node::After(from, absl::Milliseconds(1),
                [done = std::move(done)] { done(absl::UnavailableError("connection refused")); });
    return;
  }
  CoordinatorProcess* const process = host.process_.get();
  world.network.Call<absl::StatusOr<T>>(
      from, process->node(), kTimeout,
      [process, ask = std::move(ask)](const std::function<void(absl::StatusOr<T>)>& respond) {
        respond(ask(*process));
      },
      [done = std::move(done)](std::optional<absl::StatusOr<T>> answer) {
        done(answer.has_value() ? *std::move(answer)
                                : absl::StatusOr<T>(absl::UnavailableError("no answer in time")));
      });
}

void CoordinatorHost::Register(World& world, const NodePtr& from, int shard,
                               const std::string& instance_id, bool has_model,
                               std::function<void(absl::StatusOr<RegistrationAnswer>)> done) {
  Ask<RegistrationAnswer>(
      world, from,
      [=](CoordinatorProcess& process) { return process.Register(shard, instance_id, has_model); },
      std::move(done));
}

void CoordinatorHost::Heartbeat(World& world, const NodePtr& from, int shard, uint64_t generation,
                                std::function<void(absl::StatusOr<bool>)> done) {
  Ask<bool>(
      world, from,
      [=](CoordinatorProcess& process) { return process.Heartbeat(shard, generation); },
      std::move(done));
}

void CoordinatorHost::Map(World& world, const NodePtr& from,
                          std::function<void(absl::Status)> done) {
  Ask<bool>(
      world, from,
      [](CoordinatorProcess& process) -> absl::StatusOr<bool> {
        const absl::Status map = process.Map();
        if (!map.ok()) return map;
        return true;
      },
      [done = std::move(done)](const absl::StatusOr<bool>& map) { done(map.status()); });
}

void CoordinatorHost::Acquire(World& world, const NodePtr& from, const WorkRequest& request,
                              std::function<void(absl::StatusOr<Work>)> done) {
  Ask<Work>(
      world, from, [request](CoordinatorProcess& process) { return process.Acquire(request); },
      std::move(done));
}

}  // namespace dslide::simulation

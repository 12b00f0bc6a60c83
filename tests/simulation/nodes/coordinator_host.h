// The coordinator's machine: what its disk has, and the process that runs there now.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "services/coordinator/jobs/job.h"
#include "tests/simulation/nodes/manifests.h"
#include "tests/simulation/nodes/memory_catalog.h"
#include "tests/simulation/nodes/memory_jobs.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

class CoordinatorProcess;

// What a shard is told that registers.
struct RegistrationAnswer {
  uint64_t generation = 0;
  bool rollback_pending = false;  // the cluster, to a checkpoint
};

struct CoordinatorDisk {
  CatalogDisk catalog;
  ManifestDisk manifests;
  JobDisk jobs;
  uint64_t lives = 0;
};

// Not thread-safe.
class CoordinatorHost {
 public:
  // `world` outlives it.
  explicit CoordinatorHost(World& world);
  ~CoordinatorHost();

  void Start();
  // Ends the process; another one starts after `pause`.
  void Kill(absl::Duration pause);
  bool up() const;
  CoordinatorProcess& process() { return *process_; }
  CoordinatorDisk& disk() { return disk_; }

  // --- Calls to whatever process runs there, from the process `from`. Errors: Unavailable when
  // there was no answer.
  static void Register(World& world, const NodePtr& from, int shard, const std::string& instance_id,
                       bool has_model,
                       std::function<void(absl::StatusOr<RegistrationAnswer>)> done);
  // Whether the cluster may go back.
  static void Heartbeat(World& world, const NodePtr& from, int shard, uint64_t generation,
                        std::function<void(absl::StatusOr<bool>)> done);
  // Whether clients may begin.
  static void Map(World& world, const NodePtr& from, std::function<void(absl::Status)> done);
  static void Acquire(World& world, const NodePtr& from, const WorkRequest& request,
                      std::function<void(absl::StatusOr<Work>)> done);

 private:
  template <typename T>
  static void Ask(World& world, const NodePtr& from,
                  std::function<absl::StatusOr<T>(CoordinatorProcess&)> ask,
                  std::function<void(absl::StatusOr<T>)> done);

  World& world_;
  CoordinatorDisk disk_;
  bool starting_ = false;
  std::unique_ptr<CoordinatorProcess> process_;
  std::vector<std::unique_ptr<CoordinatorProcess>> past_;
};

}  // namespace dslide::simulation

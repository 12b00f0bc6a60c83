// Creates and drops models on the shards of a cluster.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"
#include "core/spec/model_growth.h"
#include "services/coordinator/assets/asset_store.h"
#include "services/coordinator/control/cluster_registry.h"
#include "services/coordinator/jobs/job_table.h"
#include "services/coordinator/membership/fan_out.h"
#include "services/coordinator/membership/shard_admin.h"

namespace dslide::coordinator {

struct GrowthRequest {
  std::string model;
  Growth growth = {};
  bool dry_run = false;
};

struct ModelGrowth {
  int64_t rows_before = 0;  // or labels
  ModelSpec spec = {};      // afterwards
};

struct ModelRetirement {
  int64_t retired_before = 0;
  int64_t retired = 0;
  ModelSpec spec = {};  // afterwards
};

struct ModelRolloutOptions {
  // Shards that are asked at once, >= 1.
  size_t calls_at_once = kFanOutThreads;
  // Of a shard that is given what it lacks.
  absl::Duration sync_timeout = absl::Minutes(2);
};

// Calls block for `timeout` at most. One caller at a time (Exclusive): meanwhile no model comes or
// goes.
class ModelRollout {
 public:
  // What belongs to models. They outlive it.
  struct Cluster {
    ClusterRegistry* registry = nullptr;
    JobTable* jobs = nullptr;
    AssetStore* assets = nullptr;
    ShardAdmin* shards = nullptr;
  };
  ModelRollout(const ModelRolloutOptions& options, const Cluster& cluster, Metrics* metrics);

  // Creates it on every shard and then registers it; true when it is new. When a shard fails, what
  // was created by this call is dropped again as far as possible, and nothing is registered.
  // Errors: Unavailable NOT_ALL_SHARDS; MODEL_DIFFERS; those of the shards, combined.
  absl::StatusOr<bool> Create(const ModelSpec& spec, absl::Duration timeout);

  // Gives a registered model rows of a table, or labels: looks whether every shard has the memory,
  // records it and then grows the model on every shard. What fails after it was recorded is tried
  // again by Sync(), also by a later process. dry_run: looks only. Returns the model before and
  // after. Errors: those of ClusterRegistry::GrownModel and of the shards, combined.
  absl::StatusOr<ModelGrowth> Grow(const GrowthRequest& request, absl::Duration timeout);

  // Retires labels of a registered model, or restores them: records it and then tells every shard.
  // A repeated request tells them again. What fails after it was recorded is tried again by Sync(),
  // also by a later process. Returns the model before and after. Errors: those of
  // ClusterRegistry::RetiredModel and of the shards, combined.
  absl::StatusOr<ModelRetirement> RetireLabels(const RetirementRequest& request,
                                               absl::Duration timeout);

  // Drops it from every shard, with its jobs and assets, and unregisters it. A model that only some
  // shards have (a creation that failed half-way) is dropped too. Errors: NotFound when nobody had
  // it.
  absl::Status Drop(const std::string& model, absl::Duration timeout);

  // Creates what a shard lacks of the registered models, grows what has fewer rows there, and says
  // which labels are retired. OK
  // when it has all of them, or is not the one that registered any more.
  absl::Status Sync(ShardId shard, uint64_t generation);

 private:
  // Changes a model that is there, or only looks, as the command says. `what`: for errors.
  absl::Status ChangeOn(const ClusterMap& map, const CreateModelCommand& command,
                        absl::string_view what, absl::Duration timeout);

  const ModelRolloutOptions options_;
  ClusterRegistry* const registry_;
  JobTable* const jobs_;
  AssetStore* const assets_;
  ShardAdmin* const shards_;
  Counter recreated_models_;
};

}  // namespace dslide::coordinator
